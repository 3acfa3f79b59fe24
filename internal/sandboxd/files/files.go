package files

import (
	"bytes"
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/sandboxd/reply"
)

// tempPrefix is the prefix of files that are being written or removed.
const tempPrefix = ".rolloutd-"

// Write writes a temporary file and renames it: a reader never sees a partial file, and links and other
// names of the old file are not written through.
func (p Places) Write(path string, mode uint32, data io.Reader) error {
	d, name, err := p.parent(path, true)
	if err != nil {
		return fault.Wrap(reply.Kind(err), err, "write %q", path)
	}
	defer d.close()

	temp := tempPrefix + rand.Text()

	err = d.create(temp, mode, data, copyAll)
	if err == nil {
		err = unix.Renameat(d.fd, temp, d.fd, name)
	}

	if err != nil {
		_ = unix.Unlinkat(d.fd, temp, 0)
		return fault.Wrap(reply.Kind(err), err, "write %q", path)
	}

	return nil
}

// create creates a file and fills it by write.
func (d *dir) create(name string, mode uint32, data io.Reader, write func(*os.File, io.Reader) error) error {
	f, err := d.open(name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, 0o600)
	if err != nil {
		return err
	}

	return errors.Join(write(f, data), f.Chmod(fs.FileMode(mode&0o777)), f.Close())
}

// onlyWriter hides all methods but Write, so that io.Copy uses its small buffer.
type onlyWriter struct{ io.Writer }

func copyAll(f *os.File, data io.Reader) error {
	_, err := io.Copy(onlyWriter{f}, data)
	return err
}

// pageBytes is the smallest allocation of a file system.
const pageBytes = 4 << 10

// copySparse leaves holes for pages of zeros, so that a sparse file that was packed takes no more space
// when it is unpacked.
func copySparse(f *os.File, data io.Reader) error {
	block := make([]byte, 64<<10)

	var size int64

	for {
		n, err := io.ReadFull(data, block)
		if err := writeSparse(f, block[:n], size); err != nil {
			return err
		}

		size += int64(n)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) && n > 0 {
			break
		}

		if err != nil {
			return err
		}
	}

	return f.Truncate(size)
}

// writeSparse writes the pages of the block that are not all zeros, adjacent ones together.
func writeSparse(f *os.File, block []byte, at int64) error {
	zero := make([]byte, pageBytes)

	for start := 0; start < len(block); {
		end := start
		for end < len(block) && !bytes.HasPrefix(zero, block[end:min(end+pageBytes, len(block))]) {
			end = min(end+pageBytes, len(block))
		}

		if end == start {
			start += pageBytes
			continue
		}

		if _, err := f.WriteAt(block[start:end], at+int64(start)); err != nil {
			return err
		}

		start = end
	}

	return nil
}

// OpenRegular opens the regular file at path, of at most limit bytes.
func (p Places) OpenRegular(path string, limit int64) (*os.File, error) {
	f, err := p.openFile(path)
	if err != nil {
		return nil, err
	}

	st, err := f.Stat()
	switch {
	case err != nil:
	case !st.Mode().IsRegular():
		err = fault.New(fault.Invalid, "not a regular file but %s", st.Mode().Type())
	case st.Size() > limit:
		err = fault.New(fault.Invalid, "%d bytes, over the limit of %d", st.Size(), limit)
	default:
		return f, nil
	}

	_ = f.Close()

	return nil, err
}

func (p Places) openFile(path string) (*os.File, error) {
	base, rest, err := p.split(path)
	if err != nil {
		return nil, err
	}

	if len(rest) == 0 {
		return os.OpenFile(base, os.O_RDONLY|unix.O_NONBLOCK, 0)
	}

	d, name, err := p.parent(path, false)
	if err != nil {
		return nil, err
	}
	defer d.close()

	return d.open(name, unix.O_RDONLY, 0)
}

// Remove removes path and everything below it. It removes links, not their targets. A missing path is not an error.
func (p Places) Remove(path string) error {
	d, name, err := p.parent(path, false)
	if err == nil {
		err = removeTree(d, name)
		d.close()
	}

	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}

	return fault.Wrap(reply.Kind(err), err, "remove %q", path)
}
