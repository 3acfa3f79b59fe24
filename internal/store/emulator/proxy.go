package emulator

import (
	"io"
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// Proxy is a listener that passes connections on to a server. It can fail as a network does; it is safe for
// concurrent use.
type Proxy struct {
	l net.Listener

	mu sync.Mutex

	// nil: there is no server yet
	dial  func() (net.Conn, error)
	state state

	// connections that end at once, whatever the state
	drops int

	// connections that ended in the state lost
	lost int
	open map[net.Conn]struct{}
	all  sync.WaitGroup
}

type state int

const (
	serving state = iota

	// connections end at once
	lost

	// connections are accepted and nothing is read
	silent
)

// NewProxy listens. Its connections end at once until there is a server behind it; the address does not change.
func NewProxy(t testing.TB) *Proxy {
	t.Helper()

	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)

	f := &Proxy{l: l, open: map[net.Conn]struct{}{}}
	f.all.Go(f.accept)
	t.Cleanup(func() {
		_ = l.Close()

		f.Lose()
		f.all.Wait()
	})

	return f
}

// To passes further connections on to the server at the address, as net.Dial takes it.
func (f *Proxy) To(network, address string) {
	f.mu.Lock()
	defer f.mu.Unlock()

	f.dial = func() (net.Conn, error) { return net.Dial(network, address) }
}

// Address is where clients reach the server.
func (f *Proxy) Address() string { return f.l.Addr().String() }

// Lose ends all connections, and every further one at once.
func (f *Proxy) Lose() { f.become(lost) }

// Refused is how many connections have met a server that was lost.
func (f *Proxy) Refused() int {
	f.mu.Lock()
	defer f.mu.Unlock()

	return f.lost
}

// Silence ends all connections; further ones get no answer.
func (f *Proxy) Silence() { f.become(silent) }

// Return ends all connections; further ones reach the server.
func (f *Proxy) Return() { f.become(serving) }

// Drop ends all connections and the next n, each at once.
func (f *Proxy) Drop(n int) {
	f.mu.Lock()
	f.drops = n
	f.mu.Unlock()
	f.become(serving)
}

func (f *Proxy) become(s state) {
	f.mu.Lock()
	defer f.mu.Unlock()

	f.state = s
	for c := range f.open {
		_ = c.Close()
	}
}

func (f *Proxy) accept() {
	for {
		c, err := f.l.Accept()
		if err != nil {
			return
		}

		f.all.Go(func() { f.pass(c) })
	}
}

// pass copies both ways until one side ends.
func (f *Proxy) pass(c net.Conn) {
	defer c.Close()

	s, dial := f.keep(c)
	defer f.drop(c)

	if s == lost || dial == nil {
		return
	}

	if s == silent {
		_, _ = io.Copy(io.Discard, c)
		return
	}

	up, err := dial()
	if err != nil {
		return
	}
	defer up.Close()

	back := make(chan struct{})
	// ends when either connection is closed
	go func() {
		defer close(back)

		_, _ = io.Copy(c, up)
		_ = c.Close()
	}()

	_, _ = io.Copy(up, c)
	_ = up.Close()

	<-back
}

// keep remembers a connection, so that a change of state ends it, and returns the state and the way to the server.
func (f *Proxy) keep(c net.Conn) (s state, dial func() (net.Conn, error)) {
	f.mu.Lock()
	defer f.mu.Unlock()

	f.open[c] = struct{}{}
	if f.drops > 0 {
		f.drops--
		return lost, f.dial
	}

	if f.state == lost {
		f.lost++
	}

	return f.state, f.dial
}

func (f *Proxy) drop(c net.Conn) {
	f.mu.Lock()
	defer f.mu.Unlock()

	delete(f.open, c)
}
