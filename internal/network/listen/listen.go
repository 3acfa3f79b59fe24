// Package listen opens TCP listeners whose errors include the remedy.
package listen

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"

	"github.com/rolloutd/rolloutd/internal/network/lostconn"
)

// Error means that a listener could not be opened at its address.
type Error struct {
	// the part that listens, for messages
	What    string
	Address string

	// the flag or setting of the address
	Setting string
	Err     error
}

func (e *Error) Error() string {
	if errors.Is(e.Err, syscall.EADDRINUSE) {
		return fmt.Sprintf(
			"%s cannot listen on %s, which is in use: stop the program that listens there, or set another address with %s",
			e.What,
			e.Address,
			e.Setting,
		)
	}

	return fmt.Sprintf("%s cannot listen on %s (set by %s): %v", e.What, e.Address, e.Setting, e.Err)
}

func (e *Error) Unwrap() error { return e.Err }

// TCP listens on address, or returns an Error. A client that is unreachable or reads nothing holds its
// connection for lostconn.Timeout at most.
func TCP(what, address, setting string) (*net.TCPListener, error) {
	// listening does not block
	l, err := lostconn.Listener().Listen(context.Background(), "tcp", address)
	if err != nil {
		return nil, &Error{What: what, Address: address, Setting: setting, Err: err}
	}
	// "tcp" always returns this type
	return l.(*net.TCPListener), nil
}
