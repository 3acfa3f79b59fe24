package process

import (
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// reclaimAfter is how long a process must have been stopped until memory is swapped out: that and the way back take some half a second of CPU time.
	reclaimAfter = 30 * time.Second
	// reclaimBytes is more than there is.
	reclaimBytes = "1099511627776"
)

// pauser stops a process with SIGSTOP while it waits for its model, and lets it run on as soon as anything is there for it to do. A process that
// waits still takes CPU time for its timers, and its memory cannot stay swapped out.
//
// A process with children is not stopped: a tool or a server of its own may be at work, and would wait for it.
type pauser struct {
	process *Process
	after   time.Duration // for so long it must have done nothing but wait

	reclaim      *os.File      // see Options.Reclaim
	reclaimAfter time.Duration // since the stop

	mu      sync.Mutex
	calls   int       // of its model, that are open
	busy    int       // requests that it has to answer, and pieces of answers that are on their way to it
	since   time.Time // when one of these changed last
	armed   bool      // check will run
	stopped bool
	closed  bool // it runs from here on
}

// change adds to the numbers of open calls and of what the process has to do. When it returns the process runs.
func (w *pauser) change(calls, busy int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls, w.busy, w.since = w.calls+calls, w.busy+busy, time.Now()
	w.resume()
	w.arm(w.after)
}

// resume is called with mu held.
func (w *pauser) resume() {
	if w.stopped && w.process.lives() {
		_ = unix.Kill(w.process.pid, unix.SIGCONT)
	}
	w.stopped = false
}

// waits says whether the process has nothing to do but to wait for its model, as far as is known without a look at it. mu is held.
func (w *pauser) waits() bool {
	return !w.closed && w.calls > 0 && w.busy == 0 && w.process.lives()
}

// arm has check run, once, if the process may be stopped then. mu is held.
func (w *pauser) arm(in time.Duration) {
	if !w.armed && w.waits() {
		w.armed = true
		time.AfterFunc(in, w.check)
	}
}

// check stops the process if it has done nothing but wait for long enough.
func (w *pauser) check() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.armed = false
	if !w.waits() {
		return
	}
	if left := w.after - time.Since(w.since); left > 0 {
		w.arm(left)
		return
	}
	// It is looked at again when it cannot start a child any more.
	if alone, asleep := w.look(); alone && asleep && unix.Kill(w.process.pid, unix.SIGSTOP) == nil {
		w.stopped = true
		if alone, _ := w.look(); alone {
			w.reclaimLater()
			return
		}
		w.resume()
	}
	w.arm(w.after)
}

// reclaimLater has memory swapped out if the process stays stopped. mu is held.
func (w *pauser) reclaimLater() {
	if w.reclaim == nil {
		return
	}
	since := w.since
	time.AfterFunc(w.reclaimAfter, func() {
		if w.stoppedSince(since) {
			_, _ = w.reclaim.WriteString(reclaimBytes) // it frees what can be freed; not all can
		}
	})
}

// stoppedSince says that the process is stopped, and nothing came for it since then.
func (w *pauser) stoppedSince(then time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stopped && w.since.Equal(then)
}

// look says whether the process has neither children nor others in its session, and whether its first thread sleeps.
func (w *pauser) look() (alone, asleep bool) {
	all, err := procTable()
	if err != nil || len(tree(all, w.process.pid, w.process.lives())) != 1 {
		return false, false
	}
	return true, slices.ContainsFunc(all, func(e procEntry) bool { return e.pid == w.process.pid && e.asleep })
}

// close lets the process run, for good.
func (w *pauser) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	w.resume()
}

func (w *pauser) isStopped() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stopped
}

// Calls takes in a model call of the process of that name. carry is to be called with true before a piece of the answer is given to the process, and
// with false after that; end when there is no more of it. One goroutine calls them.
func (t *Table) Calls(name string) (carry func(bool), end func()) {
	w := t.pauserOf(name)
	if w == nil {
		return func(bool) {}, func() {}
	}
	w.change(1, 0)
	carrying := false
	carry = func(begins bool) {
		switch {
		case begins && !carrying:
			w.change(0, 1)
		case !begins && carrying:
			w.change(0, -1)
		}
		carrying = begins
	}
	return carry, func() { carry(false); w.change(-1, 0) }
}

// Ask lets the process of that name run until it has answered a request. Where the request names no process, it may be for any of them.
func (t *Table) Ask(name string) (answered func()) {
	var asked []*pauser
	if w := t.pauserOf(name); w != nil {
		asked = []*pauser{w}
	} else if name == "" {
		asked = t.pausers()
	}
	for _, w := range asked {
		w.change(0, 1)
	}
	return sync.OnceFunc(func() {
		for _, w := range asked {
			w.change(0, -1)
		}
	})
}

// pauserOf is that of the process of a name; nil: there is none, or it is not to be stopped.
func (t *Table) pauserOf(name string) *pauser {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p, ok := t.byName[name]; ok {
		return p.pauser
	}
	return nil
}

func (t *Table) pausers() []*pauser {
	var list []*pauser
	for _, p := range t.running() {
		if p.pauser != nil {
			list = append(list, p.pauser)
		}
	}
	return list
}
