package bench_test

import (
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
)

const (
	state = `{"type":"state"}`
	list  = `{"type":"step","data":{"type":"list_tools"}}`
)

const (
	rounds = 5
	warmUp = 500

	// steps of each server in a round
	inRound = 4_000
)

// work is a frame and the number of connections that send it repeatedly. Each connection waits for the
// reply before it sends again.
type work struct {
	name, frame string
	at          int
}

// steps measures the servers in turn, so that other load on the machine affects all of them alike.
func steps(t *testing.T, w work, servers []*server) {
	conns, spent := map[*server][]*websocket.Conn{}, map[*server]time.Duration{}

	for _, s := range servers {
		for range w.at {
			conns[s] = append(conns[s], s.dial(t))
		}

		s.cost(t, conns[s], w.frame, warmUp)
	}

	for range rounds {
		for _, s := range servers {
			spent[s] += s.cost(t, conns[s], w.frame, inRound)
		}
	}

	t.Logf("CPU per %s, %d steps on each side, load average %s:", w.name, rounds*inRound, load(t))

	for _, s := range servers {
		t.Logf("  %-9s %8.1f µs  %5.1f× that of %s", s.name, float64(spent[s].Nanoseconds())/1e3/(rounds*inRound),
			float64(spent[s])/float64(spent[servers[0]]), servers[0].name)

		for _, c := range conns[s] {
			require.NoError(t, c.Close())
		}
	}
}

// cost returns the CPU time that the server takes for n steps.
func (s *server) cost(t *testing.T, conns []*websocket.Conn, frame string, n int) time.Duration {
	before := s.cpu(t)

	var all errgroup.Group
	for _, c := range conns {
		all.Go(func() error { return ask(c, frame, n/len(conns)) })
	}

	require.NoError(t, all.Wait())

	return s.cpu(t) - before
}
