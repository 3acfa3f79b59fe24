package filetool

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

// maxArguments bounds the arguments, in bytes.
const maxArguments = 64 << 20

// Main runs the named tool with the arguments on in, and writes its answer to out.
func Main(name string, in io.Reader, out io.Writer) error {
	var (
		a   wire.FileAnswer
		err error
	)

	switch name {
	case "read":
		a, err = run(in, read)
	case "write":
		a, err = run(in, write)
	case "edit":
		a, err = run(in, edit)
	case "list":
		a, err = run(in, list)
	default:
		return fmt.Errorf("no file tool %q", name)
	}

	if err != nil {
		a.Error = err.Error()
	}

	return json.NewEncoder(out).Encode(a)
}

// location is the file or folder that the arguments of a tool name.
type location struct {
	// absolute, or relative to the folder of the process
	Path string `json:"path"`
}

func (l location) absolute() (string, error) { return filepath.Abs(l.Path) }

func run[A interface{ absolute() (string, error) }](
	in io.Reader,
	tool func(A) (wire.FileAnswer, error),
) (wire.FileAnswer, error) {
	var arguments A
	if err := json.NewDecoder(io.LimitReader(in, maxArguments)).Decode(&arguments); err != nil {
		return wire.FileAnswer{}, fmt.Errorf("arguments: %w", err)
	}

	answer, err := tool(arguments)
	if err != nil {
		return answer, err
	}

	answer.Path, err = arguments.absolute()

	return answer, err
}

// mistake is an error in AgentEnv's words, which policies know.
type mistake string

// Error implements error.
func (m mistake) Error() string { return string(m) }

// openRegular opens a regular file for reading. It does not wait for a FIFO or a device.
func openRegular(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, explain(path, err)
	}

	if err := regular(f, path); err != nil {
		_ = f.Close()
		return nil, err
	}

	return f, nil
}

func regular(f *os.File, path string) error {
	st, err := f.Stat()
	switch {
	case err != nil:
		return explain(path, err)
	case st.IsDir():
		return mistake("Not a file: " + path + " is a directory")
	case !st.Mode().IsRegular():
		return mistake("Not a file: " + path)
	}

	return nil
}

// explain returns the error of a system call with the path as it was given.
func explain(path string, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return mistake("File not found: " + path)
	case errors.Is(err, fs.ErrPermission):
		return mistake("Permission denied: " + path)
	}

	var errno unix.Errno
	if errors.As(err, &errno) {
		return fmt.Errorf("%s: %s", path, errno.Error())
	}

	return fmt.Errorf("%s: %w", path, err)
}
