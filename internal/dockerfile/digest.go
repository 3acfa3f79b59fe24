package dockerfile

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"strings"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// Bounds of what one instruction copies.
const (
	maxCopied  = 16 << 30
	maxEntries = 500_000
)

// keyOf is the key of what depends on all parts.
func keyOf(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d:%s", len(p), p)
	}

	return hex.EncodeToString(h.Sum(nil))
}

// digest is the key of the items' names, kinds, modes and content. Times do not count.
func digest(items []item) (string, error) {
	h := sha256.New()
	bytes, entries := int64(0), 0

	for _, i := range items {
		err := i.walk(func(rel, name string, info fs.FileInfo) error {
			if entries++; entries > maxEntries {
				return fault.New(fault.Invalid, "must copy at most %d files", maxEntries)
			}

			if bytes += info.Size(); info.Mode().IsRegular() && bytes > maxCopied {
				return fault.New(fault.Invalid, "must copy at most %d bytes", int64(maxCopied))
			}

			fmt.Fprintf(h, "%q %q %o ", i.name, rel, info.Mode())

			return addContent(h, i, name, info)
		})
		if err != nil {
			return "", err
		}
	}

	return hex.EncodeToString(h.Sum(nil)), nil
}

func addContent(h hash.Hash, i item, name string, info fs.FileInfo) error {
	switch mode := info.Mode(); {
	case mode.IsDir():
		return nil
	case mode&fs.ModeSymlink != 0:
		target, err := i.from.readlink(name)
		fmt.Fprintf(h, "%q", target)

		return err
	case !mode.IsRegular():
		return fault.New(
			fault.Invalid, "%s: must be a file, a folder or a link, got %s", name, strings.Trim(mode.Type().String(), "-"),
		)
	}

	f, err := i.from.open(name)
	if err != nil {
		return err
	}
	defer f.Close()

	n, err := io.Copy(h, io.LimitReader(f, info.Size()))
	fmt.Fprintf(h, " %d ", n)

	return err
}
