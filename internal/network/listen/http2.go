package listen

import (
	"net/http"

	"github.com/rolloutd/rolloutd/internal/network/lostconn"
)

const (
	streams = 250

	// bytes
	streamWindow = 128 << 10
)

// HTTP2 is the configuration of a server whose handlers may leave the body of a request unread for long:
// the request waits for memory, or the other end of a tunnel is slow. The window of a connection has room
// for those of all its streams. With the default of 1 MiB for both, one unread body stops all other
// requests of its connection, and with them those whose memory it waits for.
func HTTP2() *http.HTTP2Config {
	c := lostconn.HTTP2()
	c.MaxConcurrentStreams = streams
	c.MaxReceiveBufferPerStream = streamWindow
	c.MaxReceiveBufferPerConnection = streams * streamWindow
	// The largest frame stays in the connection's buffer for the life of the connection; the default is 1 MiB.
	c.MaxReadFrameSize = 16 << 10

	return c
}
