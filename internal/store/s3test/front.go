package s3test

import (
	"io"
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// front is a listener that passes connections on to the server. It can fail as a network does; it is safe for concurrent use.
type front struct {
	l      net.Listener
	socket string

	mu    sync.Mutex
	state state
	drops int // connections that end at once, whatever the state
	lost  int // connections that ended in the state lost
	open  map[net.Conn]struct{}
	all   sync.WaitGroup
}

type state int

const (
	serving state = iota
	lost          // connections end at once
	silent        // connections are accepted and nothing is read
)

func startFront(t testing.TB, socket string) *front {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	f := &front{l: l, socket: socket, open: map[net.Conn]struct{}{}}
	f.all.Go(f.accept)
	t.Cleanup(func() {
		_ = l.Close()
		f.Lose()
		f.all.Wait()
	})
	return f
}

// Address is where clients reach the server.
func (f *front) Address() string { return f.l.Addr().String() }

// Lose ends all connections, and every further one at once.
func (f *front) Lose() { f.become(lost) }

// Refused is how many connections have met a server that was lost.
func (f *front) Refused() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.lost
}

// Silence ends all connections; further ones get no answer.
func (f *front) Silence() { f.become(silent) }

// Return ends all connections; further ones reach the server.
func (f *front) Return() { f.become(serving) }

// Drop ends all connections and the next n, each at once.
func (f *front) Drop(n int) {
	f.mu.Lock()
	f.drops = n
	f.mu.Unlock()
	f.become(serving)
}

func (f *front) become(s state) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.state = s
	for c := range f.open {
		_ = c.Close()
	}
}

func (f *front) accept() {
	for {
		c, err := f.l.Accept()
		if err != nil {
			return
		}
		f.all.Go(func() { f.pass(c) })
	}
}

// pass copies both ways until one side ends.
func (f *front) pass(c net.Conn) {
	defer c.Close()
	s := f.keep(c)
	defer f.drop(c)
	if s == lost {
		return
	}
	if s == silent {
		_, _ = io.Copy(io.Discard, c)
		return
	}
	up, err := net.Dial("unix", f.socket)
	if err != nil {
		return
	}
	defer up.Close()
	back := make(chan struct{})
	go func() { // ends when either connection is closed
		defer close(back)
		_, _ = io.Copy(c, up)
		_ = c.Close()
	}()
	_, _ = io.Copy(up, c)
	_ = up.Close()
	<-back
}

// keep remembers a connection, so that a change of state ends it, and returns the state.
func (f *front) keep(c net.Conn) state {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.open[c] = struct{}{}
	if f.drops > 0 {
		f.drops--
		return lost
	}
	if f.state == lost {
		f.lost++
	}
	return f.state
}

func (f *front) drop(c net.Conn) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.open, c)
}
