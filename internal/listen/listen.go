// Package listen opens TCP listeners whose errors say what to do.
package listen

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// stalled is how long a client may acknowledge no data before the kernel closes its connection. Without it, a client that reads nothing
// would hold a goroutine without end.
const stalled = time.Minute

// Error means that a listener could not be opened at its address.
type Error struct {
	What    string // the part that listens, for messages
	Address string
	Setting string // the flag or setting of the address
	Err     error
}

func (e *Error) Error() string {
	if errors.Is(e.Err, syscall.EADDRINUSE) {
		return fmt.Sprintf("%s cannot listen on %s, which is in use: stop the program that listens there, or set another address with %s",
			e.What, e.Address, e.Setting)
	}
	return fmt.Sprintf("%s cannot listen on %s (set by %s): %v", e.What, e.Address, e.Setting, e.Err)
}

func (e *Error) Unwrap() error { return e.Err }

// TCP listens on address, or returns an Error.
func TCP(what, address, setting string) (*net.TCPListener, error) {
	c := net.ListenConfig{Control: breakStalled}
	l, err := c.Listen(context.Background(), "tcp", address) // listening does not block
	if err != nil {
		return nil, &Error{What: what, Address: address, Setting: setting, Err: err}
	}
	return l.(*net.TCPListener), nil // "tcp" always returns this type
}

// breakStalled makes the kernel close stalled connections; accepted sockets inherit the option.
func breakStalled(_, _ string, raw syscall.RawConn) error {
	var failed error
	err := raw.Control(func(fd uintptr) {
		failed = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(stalled.Milliseconds()))
	})
	return errors.Join(err, failed)
}
