package prestart

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// execute finds the program with the rights of its user, and executes it.
func execute(c Config) error {
	program, err := find(c)
	if err != nil {
		return err
	}

	if _, err := unix.Write(StatusFD, []byte(Ready)); err != nil {
		return err
	}

	return replace(program, c)
}

// find enters the folder of the program, and returns the program's path.
func find(c Config) (string, error) {
	if len(c.Argv) == 0 || c.Argv[0] == "" {
		return "", fault.Field("argv", "has no program")
	}

	if !filepath.IsAbs(c.Dir) {
		return "", fault.Field("dir", "%q must be an absolute path", c.Dir)
	}

	err := os.Chdir(c.Dir)
	if err != nil && c.OrDir != "" {
		err = os.Chdir(c.OrDir)
	}

	if err != nil {
		return "", fault.Field("dir", "%q is not a directory of the sandbox", c.Dir)
	}

	return lookPath(c.Argv[0], c.Path)
}

// replace replaces this process by the program.
func replace(program string, c Config) error {
	err := unix.Exec(program, c.Argv, c.Env)
	// root of an image can remove the loader of every program
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ELIBBAD) {
		return fault.Field("argv", "%q needs an interpreter or loader that the sandbox does not have: %v", program, err)
	}

	return err
}

// lookPath finds the program as a shell with that path would.
func lookPath(program, path string) (string, error) {
	if strings.Contains(program, "/") {
		if !executable(program) {
			return "", fault.Field("argv", "%q is not a program of the sandbox", program)
		}

		return program, nil
	}

	for _, folder := range filepath.SplitList(path) {
		if file := filepath.Join(folder, program); executable(file) {
			return file, nil
		}
	}

	return "", fault.Field("argv", "no program %q in PATH %q", program, path)
}

func executable(path string) bool {
	st, err := os.Stat(path)
	return err == nil && !st.IsDir() && unix.Access(path, unix.X_OK) == nil
}

func failureOf(err error) Failure {
	f := Failure{Message: err.Error()}

	var (
		known *fault.Error
		errno unix.Errno
	)
	switch {
	case errors.As(err, &known):
		f.Kind = known.Kind
	case errors.As(err, &errno):
		f.Errno = int(errno)
	}

	return f
}

// Err returns the failure as an error with its kind or errno.
func (f Failure) Err() error {
	switch {
	case f.Kind != "":
		return fault.New(f.Kind, "%s", f.Message)
	case f.Errno != 0:
		errno := unix.Errno(f.Errno)
		return fmt.Errorf("%s%w", strings.TrimSuffix(f.Message, errno.Error()), errno)
	default:
		return errors.New(f.Message)
	}
}
