// Package listen opens TCP listeners whose errors say what to do.
package listen

import (
	"errors"
	"fmt"
	"net"
	"syscall"
)

// Error: something cannot listen where it was told to.
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
func TCP(what, address, setting string) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, &Error{What: what, Address: address, Setting: setting, Err: err}
	}
	return l, nil
}
