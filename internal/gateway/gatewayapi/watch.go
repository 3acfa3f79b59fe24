package gatewayapi

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"github.com/rolloutd/rolloutd/internal/clock"
	"github.com/rolloutd/rolloutd/internal/fault"
)

// Change is a new status of a route, or the error why there is none.
type Change struct {
	Status RouteStatus
	Err    error
}

// Watch reports the status of a route at each change, and at once if its version is not since. After a
// change it reports none for pause. It keeps only the last change that the caller has not taken. While the
// gateway does not answer, failed attempts to reach it are reported as a fault.Unavailable; the status
// follows once it answers, changed or not. A fault.NotFound, for a route that does not exist, is the last
// change. stop ends the watch.
func (c *Client) Watch(id string, since int64, pause time.Duration) (changes <-chan *Change, stop func()) {
	return c.watches.add(&watch{route: id, since: since, pause: pause, changes: make(chan *Change, 1)})
}

// watches are the watches of a client. They share one request to the gateway: a request for each would take
// goroutines and buffers on both sides.
type watches struct {
	caller caller

	mu  sync.Mutex
	all map[uint64]*watch

	// the latest key
	last uint64

	// run is active; it ends with the last watch
	running bool

	// request in flight; nil: none
	request *watchRequest
}

type watch struct {
	route string

	// version that the caller got last; 0: the next request returns the status in any case
	since int64
	pause time.Duration

	// only run sends; pointers, since a channel holds room for its elements
	changes chan *Change
}

type watchRequest struct {
	commands *commands
	cancel   context.CancelFunc
}

func newWatches(c caller) *watches { return &watches{caller: c, all: map[uint64]*watch{}} }

func (s *watches) add(w *watch) (changes <-chan *Change, stop func()) {
	s.mu.Lock()
	defer s.mu.Unlock()

	s.last++
	key := s.last

	s.all[key] = w
	if s.request != nil {
		s.request.commands.add(w.command(key))
	}

	if !s.running {
		s.running = true
		go s.run()
	}

	return w.changes, func() { s.remove(key) }
}

func (w *watch) command(key uint64) WatchCommand {
	return WatchCommand{Watch: key, Route: w.route, Since: w.since, PauseMS: w.pause.Milliseconds()}
}

func (s *watches) remove(key uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()

	if _, ok := s.all[key]; !ok {
		return
	}

	delete(s.all, key)

	switch {
	case s.request == nil:
	case len(s.all) == 0:
		s.request.cancel()
	default:
		s.request.commands.add(WatchCommand{Watch: key})
	}
}

// run makes one request after another while there are watches.
func (s *watches) run() {
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		// remove calls cancel with the last watch
		ctx, cancel := context.WithCancel(context.Background())

		r := &watchRequest{commands: newCommands(), cancel: cancel}
		if !s.begin(r) {
			cancel()
			return
		}

		began := time.Now()

		s.broke(ctx, s.receive(ctx, r.commands))

		if time.Since(began) > lastPause {
			pause = firstPause
		}

		_ = clock.Sleep(ctx, pause)

		cancel()
	}
}

// begin makes r the current request, with all watches; false: there are no watches.
func (s *watches) begin(r *watchRequest) bool {
	s.mu.Lock()
	defer s.mu.Unlock()

	if len(s.all) == 0 {
		s.running, s.request = false, nil
		return false
	}

	s.request = r
	for key, w := range s.all {
		r.commands.add(w.command(key))
	}

	return true
}

// receive makes a request and delivers its changes until it breaks.
func (s *watches) receive(ctx context.Context, body *commands) error {
	res, err := s.caller.send(ctx, http.MethodPost, WatchPath, body)
	if err != nil {
		return err
	}
	defer res.Body.Close()

	lines := bufio.NewScanner(res.Body)
	lines.Buffer(nil, maxWatchChange)

	for lines.Scan() {
		var c WatchChange
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			return fault.Wrap(fault.Unavailable, err, "gateway: change of a route")
		}

		s.deliver(c)
	}

	if err := lines.Err(); err != nil {
		return fault.Wrap(fault.Unavailable, err, "gateway: changes of routes")
	}

	return fault.New(fault.Unavailable, "gateway: changes of routes ended")
}

// deliver passes a change on. It replaces a change that was not taken.
func (s *watches) deliver(c WatchChange) {
	s.mu.Lock()
	defer s.mu.Unlock()

	w := s.all[c.Watch]
	// the gateway does not know yet that the watch has ended
	if w == nil {
		return
	}

	change := &Change{}

	switch {
	case c.Failure != nil:
		change.Err = fault.New(c.Failure.Kind, "gateway: %s", c.Failure.Message)
	case c.Status != nil:
		change.Status, w.since = *c.Status, c.Status.Version
	default:
		return
	}

	select {
	case <-w.changes:
	default:
	}

	w.changes <- change
}

// broke reports to all watches that the gateway does not answer. It keeps a change that was not taken. The
// next request returns every status: routes may be unchanged, and the callers must learn that the gateway
// answers.
func (s *watches) broke(ctx context.Context, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	// no watch was left; a new one may have begun since
	if ctx.Err() != nil {
		return
	}

	for _, w := range s.all {
		w.since = 0
		select {
		case w.changes <- &Change{Err: err}:
		default:
		}
	}
}
