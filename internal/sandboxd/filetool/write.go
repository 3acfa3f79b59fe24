package filetool

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

// maxEdit bounds an edited file, in bytes.
const maxEdit = 16 << 20

type writeArguments struct {
	location
	Content string `json:"content"`
}

func write(a writeArguments) (wire.FileAnswer, error) {
	if err := os.MkdirAll(filepath.Dir(a.Path), 0o755); err != nil {
		return wire.FileAnswer{}, explain(a.Path, err)
	}

	if err := replace(a.Path, a.Content); err != nil {
		return wire.FileAnswer{}, explain(a.Path, err)
	}

	return wire.FileAnswer{
		Content: fmt.Sprintf("Successfully wrote %d bytes to %s", len(a.Content), a.Path), Size: int64(len(a.Content)),
	}, nil
}

type editArguments struct {
	location
	Old        string `json:"old_string"`
	New        string `json:"new_string"`
	ReplaceAll bool   `json:"replace_all"`
}

func edit(a editArguments) (wire.FileAnswer, error) {
	if a.Old == "" || a.Old == a.New {
		return wire.FileAnswer{}, errors.New("old_string must not be empty and must differ from new_string")
	}

	before, err := readText(a.Path)
	if err != nil {
		return wire.FileAnswer{}, err
	}

	n := strings.Count(before, a.Old)
	switch {
	case n == 0:
		return wire.FileAnswer{}, fmt.Errorf(
			"old_string is not in %s: it must be the exact text, with its spaces and line ends",
			a.Path,
		)
	case n > 1 && !a.ReplaceAll:
		return wire.FileAnswer{}, fmt.Errorf(
			"old_string is %d times in %s: add lines around it until it is unique, or set replace_all",
			n,
			a.Path,
		)
	}

	after := strings.ReplaceAll(before, a.Old, a.New)
	if err := replace(a.Path, after); err != nil {
		return wire.FileAnswer{}, explain(a.Path, err)
	}

	return wire.FileAnswer{Content: fmt.Sprintf("Replaced %d of %d in %s", n, n, a.Path), Size: int64(len(after))}, nil
}

func readText(path string) (string, error) {
	f, err := openRegular(path)
	if err != nil {
		return "", err
	}
	defer f.Close()

	data, err := io.ReadAll(io.LimitReader(f, maxEdit+1))
	if err != nil {
		return "", explain(path, err)
	}

	if len(data) > maxEdit {
		return "", fmt.Errorf("%s has more than %d bytes", path, maxEdit)
	}

	return string(data), nil
}

// replace replaces the content at path atomically. It follows a link, also to a file that does not exist
// yet, and keeps the mode.
func replace(path, content string) error {
	mode := fs.FileMode(0o644)

	target, err := filepath.EvalSymlinks(path)
	if link, no := os.Readlink(path); no == nil && errors.Is(err, fs.ErrNotExist) {
		if !filepath.IsAbs(link) {
			link = filepath.Join(filepath.Dir(path), link)
		}

		return replace(link, content)
	}

	if err == nil {
		path = target

		st, err := os.Stat(path)
		if err != nil {
			return err
		}

		if !st.Mode().IsRegular() {
			return errors.New("not a regular file")
		}

		mode = st.Mode().Perm()
	}

	f, err := os.CreateTemp(filepath.Dir(path), ".write-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())

	_, err = f.WriteString(content)

	err = errors.Join(err, f.Chmod(mode), f.Close())
	if err != nil {
		return err
	}

	return os.Rename(f.Name(), path)
}
