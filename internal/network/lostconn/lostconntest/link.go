// Package lostconntest has a network link between two programs that a test can break.
package lostconntest

import (
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Link forwards TCP connections to an address until they are broken. It always accepts new ones. It is safe
// for concurrent use.
type Link struct {
	listener *net.TCPListener
	target   string
	working  sync.WaitGroup

	mu    sync.Mutex
	pairs map[*pair]struct{}
	ended bool
}

// pair is a forwarded connection.
type pair struct {
	near, far *net.TCPConn

	// guarded by the link's lock
	broken bool
}

// New opens a link to an address. A program may start to listen there later. The link ends with the test.
func New(t testing.TB, target string) *Link {
	t.Helper()

	listener, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	require.NoError(t, err)

	l := &Link{listener: listener, target: target, pairs: map[*pair]struct{}{}}
	l.working.Go(l.accept)
	t.Cleanup(l.close)

	return l
}

// Address is where programs dial to reach the target.
func (l *Link) Address() string { return l.listener.Addr().String() }

// Open is the number of working connections.
func (l *Link) Open() int {
	return l.each(func(*pair) error { return nil })
}

// Cut closes all working connections and returns their number.
func (l *Link) Cut() int {
	return l.each(func(p *pair) error {
		p.broken = true
		return p.close()
	})
}

// Lose makes all working connections lose every packet from now on, in both directions, and closes none. It
// returns their number, and an error if the kernel refuses.
func (l *Link) Lose() (n int, err error) {
	n = l.each(func(p *pair) error {
		failed := errors.Join(lose(p.near), lose(p.far))
		err = errors.Join(err, failed)
		p.broken = failed == nil

		return failed
	})

	return n, err
}

// each counts the working connections for which do returns no error.
func (l *Link) each(do func(*pair) error) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()

	for p := range l.pairs {
		if !p.broken && do(p) == nil {
			n++
		}
	}

	return n
}

// lose drops the packets that a socket receives before the kernel acknowledges them. No data arrives, and
// no keepalive probe is answered.
func lose(c *net.TCPConn) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}

	const deny = unix.BPF_RET | unix.BPF_K

	filter := []unix.SockFilter{{Code: deny}}

	var failed error

	err = raw.Control(func(fd uintptr) {
		failed = unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{
			Len:    1,
			Filter: &filter[0],
		})
	})

	return errors.Join(err, failed)
}

func (l *Link) accept() {
	for {
		near, err := l.listener.AcceptTCP()
		if err != nil {
			return
		}

		l.working.Go(func() { l.carry(near) })
	}
}

const connectTime = 10 * time.Second

// carry forwards a connection until both directions have ended, or it is broken.
func (l *Link) carry(near *net.TCPConn) {
	conn, err := net.DialTimeout("tcp", l.target, connectTime) //nolint:noctx // bounded, and by the link's end
	if err != nil {
		// a reset, as where no program listens
		_ = near.SetLinger(0)
		_ = near.Close()

		return
	}

	p := &pair{near: near, far: conn.(*net.TCPConn)} //nolint:forcetypeassert // "tcp" always returns this type
	defer p.close()

	if !l.add(p) {
		return
	}
	defer l.remove(p)

	var both sync.WaitGroup
	both.Go(func() { forward(p.far, p.near) })
	both.Go(func() { forward(p.near, p.far) })
	both.Wait()
}

// forward copies one direction, including its end.
func forward(to, from *net.TCPConn) {
	_, _ = io.Copy(to, from)
	_ = to.CloseWrite()
}

// add is false when the link has ended.
func (l *Link) add(p *pair) bool {
	l.mu.Lock()
	defer l.mu.Unlock()

	if !l.ended {
		l.pairs[p] = struct{}{}
	}

	return !l.ended
}

func (l *Link) remove(p *pair) {
	l.mu.Lock()
	defer l.mu.Unlock()

	delete(l.pairs, p)
}

func (l *Link) close() {
	_ = l.listener.Close()
	l.mu.Lock()

	l.ended = true
	for p := range l.pairs {
		_ = p.close()
	}
	l.mu.Unlock()
	l.working.Wait()
}

func (p *pair) close() error { return errors.Join(p.near.Close(), p.far.Close()) }
