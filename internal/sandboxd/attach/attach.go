// Package attach carries one control connection over the standard streams of a process. A container engine
// on another machine starts the process in the sandbox, where it connects to the control socket.
package attach

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"runtime"
	"runtime/debug"
	"time"

	"golang.org/x/sys/unix"
)

// Command is the argument that starts this program.
const Command = "attach"

// Ready is the byte that Run writes when it has connected.
const Ready = '+'

// GoneStatus is the exit status if nothing listens at the path: sandboxd has ended, or never ran.
const GoneStatus = 4

// ErrGone is the error of Run if nothing listens at the path.
var ErrGone = errors.New("sandboxd does not run")

// Run connects stdin and stdout to a unix socket until one of the two sides ends. Its arguments are an
// optional Framed with a duration, and the path. It must be started from outside of the sandbox: sandboxd
// does not kill such processes with all others.
func Run(args []string) error {
	runtime.GOMAXPROCS(1)
	debug.SetGCPercent(20)
	// No process of the sandbox may read its memory, whatever its user.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("not dumpable: %w", err)
	}

	in := func(to io.Writer) error { return second(io.Copy(to, os.Stdin)) }

	if len(args) == 3 && args[0] == Framed {
		atMost, err := time.ParseDuration(args[1])
		if err != nil {
			return err
		}

		in = func(to io.Writer) error { return unframe(to, os.Stdin, atMost) }
		args = args[2:]
	}

	if len(args) != 1 {
		return errors.New("attach needs exactly one path")
	}

	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: args[0], Net: "unix"})
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ECONNREFUSED) {
		return fmt.Errorf("%w: %w", ErrGone, err)
	}

	if err != nil {
		return err
	}

	if _, err := os.Stdout.Write([]byte{Ready}); err != nil {
		return errors.Join(err, conn.Close())
	}
	// the first end ends the process and both streams
	ended := make(chan error, 2)
	go func() { ended <- in(conn) }()
	go func() { ended <- second(io.Copy(os.Stdout, conn)) }()

	err = <-ended

	return errors.Join(err, conn.Close())
}

func second(_ int64, err error) error { return err }
