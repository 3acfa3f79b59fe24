package process

import (
	"os"

	"golang.org/x/sys/unix"
)

// streams are the two ends of a process's stdin, stdout and stderr.
type streams struct {
	// the child's
	stdin *os.File

	// ours
	stdout, stderr           *os.File
	childStdout, childStderr *os.File
}

func openStreams(stdin []byte) (*streams, error) {
	s := &streams{}

	var err error
	if s.stdin, err = input(stdin); err != nil {
		return nil, err
	}

	if s.stdout, s.childStdout, err = os.Pipe(); err != nil {
		s.closeChild()
		return nil, err
	}

	if s.stderr, s.childStderr, err = os.Pipe(); err != nil {
		s.closeChild()
		s.closeParent()

		return nil, err
	}

	return s, nil
}

// input returns stdin as a file in memory, so that no goroutine has to feed a pipe.
func input(data []byte) (*os.File, error) {
	if len(data) == 0 {
		return os.Open(os.DevNull)
	}

	fd, err := unix.MemfdCreate("stdin", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, err
	}

	f := os.NewFile(uintptr(fd), "stdin")
	if _, err = f.Write(data); err == nil {
		_, err = f.Seek(0, 0)
	}

	if err != nil {
		_ = f.Close()
		return nil, err
	}

	return f, nil
}

// child returns the descriptors that become 0, 1 and 2.
func (s *streams) child() [3]uintptr {
	return [3]uintptr{s.stdin.Fd(), s.childStdout.Fd(), s.childStderr.Fd()}
}

func (s *streams) closeChild() { closeAll(s.stdin, s.childStdout, s.childStderr) }

func (s *streams) closeParent() { closeAll(s.stdout, s.stderr) }

func closeAll(files ...*os.File) {
	for _, f := range files {
		if f != nil {
			_ = f.Close()
		}
	}
}
