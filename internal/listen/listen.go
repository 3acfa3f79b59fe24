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

// stalled is how long a client may take nothing of what is written to it, before its connection is broken. Without it, one that
// answers the kernel but reads nothing would hold a goroutine for ever.
const stalled = time.Minute

// Error means that a listener could not be opened at its address.
type Error struct {
	What    string // what wanted to listen, for people
	Address string
	Setting string // what moves it elsewhere: a flag or a setting
	Err     error
}

func (e *Error) Error() string {
	if errors.Is(e.Err, syscall.EADDRINUSE) {
		return fmt.Sprintf("%s cannot listen on %s, which is in use: stop what listens there, or move this with %s",
			e.What, e.Address, e.Setting)
	}
	return fmt.Sprintf("%s cannot listen on %s (set by %s): %v", e.What, e.Address, e.Setting, e.Err)
}

func (e *Error) Unwrap() error { return e.Err }

// TCP listens on address, or returns an Error.
func TCP(what, address, setting string) (*net.TCPListener, error) {
	c := net.ListenConfig{Control: breakStalled}
	l, err := c.Listen(context.Background(), "tcp", address) // an address of this host is there or is not: nothing to wait for
	if err != nil {
		return nil, &Error{What: what, Address: address, Setting: setting, Err: err}
	}
	return l.(*net.TCPListener), nil // as the network's name promises
}

// breakStalled has the kernel end connections that are stalled; those that a socket accepts inherit it.
func breakStalled(_, _ string, raw syscall.RawConn) error {
	var failed error
	err := raw.Control(func(fd uintptr) {
		failed = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(stalled.Milliseconds()))
	})
	return errors.Join(err, failed)
}
