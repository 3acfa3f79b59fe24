// Package attach carries one control connection over the standard streams of a process: a container engine on another machine starts it in the
// sandbox, where it reaches the control socket, which no path of the host leads to.
package attach

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"runtime/debug"

	"golang.org/x/sys/unix"
)

// Command is the argument that asks a binary for this.
const Command = "attach"

// Ready is the byte that Run writes once it has the connection.
const Ready = '+'

// Run connects stdin and stdout to the unix socket at path until one of the two sides ends. It must be started from outside of the sandbox:
// sandboxd leaves such processes alone when it kills all others.
func Run(path string) error {
	runtime.GOMAXPROCS(1)
	debug.SetGCPercent(20)
	// No process of the sandbox reads its memory, whatever its user.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("not dumpable: %w", err)
	}
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return err
	}
	if _, err := os.Stdout.Write([]byte{Ready}); err != nil {
		return errors.Join(err, conn.Close())
	}
	ended := make(chan error, 2) // the first end is the end: the process goes, and both streams with it
	go func() { ended <- second(io.Copy(conn, os.Stdin)) }()
	go func() { ended <- second(io.Copy(os.Stdout, conn)) }()
	err = <-ended
	return errors.Join(err, conn.Close())
}

func second(_ int64, err error) error { return err }
