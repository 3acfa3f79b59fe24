package process

import (
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// reclaimAfter is the time for which a process must have been stopped before its memory is swapped out:
	// swapping out and in takes about half a second of CPU time.
	reclaimAfter = 30 * time.Second
	// reclaimBytes is more than the memory of any machine.
	reclaimBytes = "1099511627776"
)

// pauser stops a process with SIGSTOP while it waits for its model, and resumes it as soon as it has
// something to do. A waiting process uses CPU time for its timers, and its memory does not stay swapped
// out.
//
// It does not stop a process with children: a tool or server of its own may be running, and would wait for it.
type pauser struct {
	process *Process

	// least time of waiting before a stop
	after time.Duration

	// see Options.Reclaim
	reclaim *os.File

	// since the stop
	reclaimAfter time.Duration

	mu sync.Mutex

	// open model calls
	calls int

	// requests that it has to answer, and pieces of answers on their way to it
	busy int

	// time of the latest change of calls or busy
	since time.Time

	// check is scheduled
	armed   bool
	stopped bool

	// the process must not be stopped any more
	closed bool
}

// change adds to the numbers of open calls and of pending work. When it returns, the process runs.
func (w *pauser) change(calls, busy int) {
	w.mu.Lock()
	defer w.mu.Unlock()

	w.calls, w.busy, w.since = w.calls+calls, w.busy+busy, time.Now()
	w.resume()
	w.arm(w.after)
}

// resume resumes the process. mu is held.
func (w *pauser) resume() {
	if w.stopped && w.process.lives() {
		_ = unix.Kill(w.process.pid, unix.SIGCONT)
	}

	w.stopped = false
}

// waits reports whether the process only waits for its model, as far as the counters show. mu is held.
func (w *pauser) waits() bool {
	return !w.closed && w.calls > 0 && w.busy == 0 && w.process.lives()
}

// arm schedules one check, if the process may be stopped by then. mu is held.
func (w *pauser) arm(in time.Duration) {
	if !w.armed && w.waits() {
		w.armed = true
		time.AfterFunc(in, w.check)
	}
}

// check stops the process if it has only waited for long enough.
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
	// Look again after the stop, when it can no longer start a child.
	if alone, asleep := w.readState(); alone && asleep && unix.Kill(w.process.pid, unix.SIGSTOP) == nil {
		w.stopped = true
		if alone, _ := w.readState(); alone {
			w.reclaimLater()
			return
		}

		w.resume()
	}

	w.arm(w.after)
}

// reclaimLater swaps out memory if the process stays stopped. mu is held.
func (w *pauser) reclaimLater() {
	if w.reclaim == nil {
		return
	}

	since := w.since
	time.AfterFunc(w.reclaimAfter, func() {
		if w.stoppedSince(since) {
			// not all memory can be swapped out
			_, _ = w.reclaim.WriteString(reclaimBytes)
		}
	})
}

// stoppedSince reports whether the process is stopped and got no work since then.
func (w *pauser) stoppedSince(then time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()

	return w.stopped && w.since.Equal(then)
}

// readState reports whether the process has no children or others in its session, and whether its first thread sleeps.
func (w *pauser) readState() (alone, asleep bool) {
	all, err := procTable()
	if err != nil || len(tree(all, w.process.pid, w.process.lives())) != 1 {
		return false, false
	}

	return true, slices.ContainsFunc(all, func(e procEntry) bool { return e.pid == w.process.pid && e.asleep })
}

// close resumes the process for good.
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

// Calls registers a model call of the named process. Call carry(true) before a piece of the answer is
// passed to the process, carry(false) after it, and end after the last piece, all from one goroutine.
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

// Ask lets the named process run until it has answered a request; "": any process may answer it.
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

// pauserOf returns the pauser of the named process; nil: there is no such process, or it must not be stopped.
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
