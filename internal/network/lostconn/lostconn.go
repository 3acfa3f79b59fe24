// Package lostconn finds connections whose path has died: packets are lost, and neither end closes.
//
// Without its options the kernel sends data again for a quarter of an hour before it reports an error, and
// a reader that waits for a reply gets none at all. With them an operation fails Timeout after the last
// sign of the other end. A peer that is silent but reachable is not affected: its kernel acknowledges data
// and keepalive probes, however long the program behind it thinks.
package lostconn

import (
	"errors"
	"net"
	"net/http"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Timeout is how long a peer's kernel may acknowledge nothing before the connection fails. A peer that
// reads nothing for so long counts as dead as well, since its kernel then takes no data.
const Timeout = time.Minute

const (
	// probes is how many keepalive probes go out on a silent connection within Timeout.
	probes = 4
	// pingAfter and pingWait are the same for the frames of HTTP/2. They also find a peer whose kernel
	// answers and whose program does not.
	pingAfter, pingWait = 30 * time.Second, 15 * time.Second
)

// Dialer makes TCP connections that fail once their path is dead. connect bounds the making of one.
func Dialer(connect time.Duration) *net.Dialer { return dialer(connect, Timeout) }

func dialer(connect, silence time.Duration) *net.Dialer {
	pause := silence / probes

	return &net.Dialer{
		Timeout:         connect,
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: pause, Interval: pause, Count: probes},
		Control:         func(_, _ string, raw syscall.RawConn) error { return bound(raw, silence) },
	}
}

// Listener returns the configuration of TCP listeners whose connections fail once their path is dead.
func Listener() *net.ListenConfig { return listener(Timeout) }

func listener(silence time.Duration) *net.ListenConfig {
	pause := silence / probes

	return &net.ListenConfig{
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: pause, Interval: pause, Count: probes},
		// Accepted sockets inherit the option.
		Control: func(_, _ string, raw syscall.RawConn) error { return bound(raw, silence) },
	}
}

// HTTP2 is the configuration with which clients and servers of HTTP/2 find dead connections.
func HTTP2() *http.HTTP2Config {
	return &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingWait}
}

// bound makes the kernel close a TCP socket whose peer has acknowledged nothing for that time.
func bound(raw syscall.RawConn, silence time.Duration) error {
	var failed error

	err := raw.Control(func(fd uintptr) {
		failed = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(silence.Milliseconds()))
	})

	return errors.Join(err, failed)
}
