package trace

import (
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// syncData writes the file's data, and its size, to disk; times of access and change do not matter.
func syncData(f *os.File) error {
	for {
		if err := unix.Fdatasync(int(f.Fd())); err != unix.EINTR {
			return err
		}
	}
}

// writeAt writes the parts one after the other, in one call where the system takes them all at once: a prompt of many
// thousand tokens is not copied once more.
func writeAt(f *os.File, parts [][]byte, at int64) error {
	// writing uses it up
	left := make([][]byte, len(parts))
	copy(left, parts)

	for left = skipBytes(left, 0); len(left) > 0; {
		n, err := unix.Pwritev(int(f.Fd()), left, at)
		if err == unix.EINTR {
			continue
		}

		if err != nil {
			return &os.PathError{Op: "write", Path: f.Name(), Err: err}
		}

		if n == 0 {
			return io.ErrShortWrite
		}

		at += int64(n)
		left = skipBytes(left, n)
	}

	return nil
}

// skipBytes drops the first n bytes, and empty parts.
func skipBytes(parts [][]byte, n int) [][]byte {
	for len(parts) > 0 && n >= len(parts[0]) {
		n -= len(parts[0])
		parts = parts[1:]
	}

	if n > 0 {
		parts[0] = parts[0][n:]
	}

	return parts
}
