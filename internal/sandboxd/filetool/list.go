package filetool

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

// Bounds of one list: shown entries, and entries read of one directory.
const (
	maxShown = 1000
	maxNames = 100_000
)

type listArguments struct {
	location
	Recursive bool `json:"recursive"`
}

// lister collects the entries below a directory.
type lister struct {
	out       strings.Builder
	recursive bool
	shown     int

	// entries were omitted
	more bool
}

func list(a listArguments) (wire.FileAnswer, error) {
	if a.Path == "" {
		a.Path = "."
	}

	l := &lister{recursive: a.Recursive}
	if err := l.folder(a.Path, ""); err != nil {
		return wire.FileAnswer{}, explain(a.Path, err)
	}

	if l.shown == 0 {
		l.out.WriteString("(empty)\n")
	}

	if l.more {
		fmt.Fprintf(&l.out, "[... the entries after the first %d are left out ...]\n", l.shown)
	}

	return wire.FileAnswer{Content: l.out.String(), Size: int64(l.shown)}, nil
}

func (l *lister) folder(path, prefix string) error {
	entries, err := readDir(path)
	if err != nil {
		return err
	}

	for _, e := range entries {
		if l.shown == maxShown || l.out.Len() > maxRead {
			l.more = true
			return nil
		}

		l.shown++

		name := prefix + e.Name()
		if !e.IsDir() {
			l.out.WriteString(printable(name) + mark(filepath.Join(path, e.Name()), e) + "\n")
			continue
		}

		l.out.WriteString(printable(name) + "/\n")

		if l.recursive && e.Name() != ".git" {
			// an unreadable one is shown without its entries
			_ = l.folder(filepath.Join(path, e.Name()), name+"/")
		}
	}

	return nil
}

func readDir(path string) ([]fs.DirEntry, error) {
	// opening a FIFO would block
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()

	entries, err := f.ReadDir(maxNames)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}

	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })

	return entries, nil
}

// mark returns the text after a name: the size of a file, the target of a link.
func mark(path string, e fs.DirEntry) string {
	if e.Type()&fs.ModeSymlink != 0 {
		target, _ := os.Readlink(path)
		return " -> " + printable(target)
	}

	if st, err := e.Info(); err == nil && e.Type().IsRegular() {
		return fmt.Sprintf("  %d", st.Size())
	}

	return ""
}

// printable returns a name on one line.
func printable(name string) string {
	name = strings.ToValidUTF8(name, "\uFFFD")

	return strings.Map(func(r rune) rune {
		if r < ' ' {
			return '?'
		}

		return r
	}, name)
}
