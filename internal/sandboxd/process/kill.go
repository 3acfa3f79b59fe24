package process

import (
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// KillTime bounds a kill; only a process in uninterruptible sleep survives SIGKILL that long.
const KillTime = 10 * time.Second

// stopRounds bounds how often processes are listed and stopped before they are killed: a tracer may resume
// a stopped process, which then forks without end.
const stopRounds = 100

// stopTime bounds these rounds, which are slow on a slow machine: SIGKILL must be sent well within KillTime.
const stopTime = time.Second

// tracerTime is the time for a tracer to reap a killed process before the tracer is killed too.
const tracerTime = time.Second

// Kill ends p, its session and its descendants, and waits for their end. It does not find a descendant that
// has left the session and lost its parents; KillAll does.
func (t *Table) Kill(p *Process) error {
	if err := killTree(p.pid, p.Running); err != nil {
		return err
	}

	// The kernel shows its end before this process has taken its exit status.
	<-p.done

	return nil
}

// killTree kills the session and the descendants of the process pid, which lives while alive returns true.
func killTree(pid int, alive func() bool) error {
	if err := repeatKill(func(all []procEntry) []int { return tree(all, pid, alive()) }); err != nil {
		return err
	}

	return releaseTraced(func(all []procEntry) []int { return deadOf(all, pid, alive()) })
}

// releaseTraced waits until no tracer holds one of the dead processes that targets selects. The kernel
// reports a traced process's end to its tracer before its parent, so a tracer that does not wait keeps the
// parent waiting. A debugger waits at once; any other tracer is killed, which releases its tracees.
func releaseTraced(targets func([]procEntry) []int) error {
	patience := time.Now().Add(tracerTime)

	for {
		all, err := procTable()
		if err != nil {
			return err
		}

		held := false

		for _, pid := range targets(all) {
			for _, tracer := range tracersOf(pid) {
				held = true

				if time.Now().After(patience) {
					_ = unix.Kill(tracer, unix.SIGKILL)
				}
			}
		}

		switch {
		case !held:
			return nil
		case time.Now().After(patience.Add(KillTime)):
			return fault.New(fault.Timeout, "a tracer outlived SIGKILL for %s", KillTime)
		}

		time.Sleep(20 * time.Millisecond)
	}
}

// SignalAll sends SIGKILL to every other process of the sandbox, except the spared one; in one call if no
// process came from outside, so that no fork escapes it.
func (t *Table) SignalAll() {
	if os.Getpid() != 1 {
		return
	}

	all, err := procTable()
	if t.spared == 0 && (err != nil || !slices.ContainsFunc(all, procEntry.fromOutside)) {
		_ = unix.Kill(-1, unix.SIGKILL)
		return
	}

	for _, pid := range t.others(all) {
		_ = unix.Kill(pid, unix.SIGKILL)
	}
}

// KillAll ends every process but this one. After it no tool call starts a process.
func (t *Table) KillAll() error {
	t.starting.Lock()
	defer t.starting.Unlock()

	t.closed = true
	self := os.Getpid()

	err := repeatKill(func(all []procEntry) []int {
		t.SignalAll()

		if self == 1 {
			// to wait for
			return t.others(all)
		}

		return t.withoutSpared(tree(all, self, true))
	})
	if err != nil {
		return err
	}

	for _, p := range t.all() {
		<-p.done
	}

	return nil
}

// Freeze stops every process but this one, until Thaw: when it returns, each thread has reached its stop. After it no
// tool call starts a process. Processes that cannot be stopped, because they fork or resume each other faster, are a
// fault.Timeout.
func (t *Table) Freeze() error {
	t.starting.Lock()
	defer t.starting.Unlock()

	t.closed = true
	deadline, signalled := time.Now().Add(KillTime), map[int]bool{}

	for ; ; time.Sleep(time.Millisecond) {
		pids, err := t.killable()
		if err != nil {
			return err
		}

		// A signal alone is not a stop: a thread may be in the middle of a write, and another process may resume it.
		pids = slices.DeleteFunc(pids, func(pid int) bool { return signalled[pid] && !anyThread(pid, procEntry.active) })
		if len(pids) == 0 {
			return nil
		}

		if time.Now().After(deadline) {
			return fault.New(fault.Timeout, "%d processes could not be stopped within %s", len(pids), KillTime)
		}

		for _, pid := range pids {
			_ = unix.Kill(pid, unix.SIGSTOP)
			signalled[pid] = true
		}
	}
}

// Thaw resumes what Freeze has stopped.
func (t *Table) Thaw() error {
	pids, err := t.killable()
	for _, pid := range pids {
		_ = unix.Kill(pid, unix.SIGCONT)
	}

	return err
}

// killable returns the living processes that KillAll would end.
func (t *Table) killable() ([]int, error) {
	all, err := procTable()
	if err != nil {
		return nil, err
	}

	self := os.Getpid()
	if self != 1 {
		return t.withoutSpared(tree(all, self, true)), nil
	}

	return t.others(slices.DeleteFunc(all, func(e procEntry) bool { return e.dead })), nil
}

// repeatKill kills the processes that targets selects until there are none. Since they may fork while they
// are listed, they are first stopped until a list shows no new ones, at most stopRounds times and for
// stopTime: a stopped process cannot fork, and still counts against the process limit.
func repeatKill(targets func([]procEntry) []int) error {
	deadline := time.Now().Add(KillTime)
	stopped, rounds, stopUntil := map[int]bool{}, 0, time.Now().Add(stopTime)

	for pause := time.Millisecond; ; pause = min(2*pause, 20*time.Millisecond) {
		all, err := procTable()
		if err != nil {
			return err
		}

		pids := targets(all)
		if len(pids) == 0 {
			return nil
		}

		if time.Now().After(deadline) {
			return fault.New(fault.Timeout, "%d processes outlived SIGKILL for %s", len(pids), KillTime)
		}

		if stop(pids, stopped) > 0 && rounds < stopRounds && time.Now().Before(stopUntil) {
			rounds++
			continue
		}

		for _, pid := range pids {
			_ = unix.Kill(pid, unix.SIGKILL)
		}

		clear(stopped)
		time.Sleep(pause)

		rounds, stopUntil = 0, time.Now().Add(stopTime)
	}
}

// stop stops the processes that are not in stopped, and returns their number.
func stop(pids []int, stopped map[int]bool) (fresh int) {
	for _, pid := range pids {
		if !stopped[pid] {
			_ = unix.Kill(pid, unix.SIGSTOP)
			stopped[pid] = true
			fresh++
		}
	}

	return fresh
}

// others returns the processes of the sandbox except the first one and the spared one.
func (t *Table) others(all []procEntry) []int {
	var pids []int

	for _, e := range all {
		if e.pid != 1 && !e.fromOutside() {
			pids = append(pids, e.pid)
		}
	}

	return t.withoutSpared(pids)
}

func (t *Table) withoutSpared(pids []int) []int {
	return slices.DeleteFunc(pids, func(pid int) bool { return pid == t.spared })
}

// tree returns the living members of root's session and their descendants, and root itself unless it is
// this process. If root is dead (alive is false), a living process of its number and that session are
// others.
func tree(all []procEntry, root int, alive bool) []int {
	return members(all, root, alive, false)
}

// deadOf returns the dead processes of the same tree that are not reaped yet.
func deadOf(all []procEntry, root int, alive bool) []int {
	return members(all, root, alive, true)
}

func members(all []procEntry, root int, alive, dead bool) []int {
	self := os.Getpid()
	member := map[int]bool{}

	for _, e := range all {
		if e.pid == root && !alive {
			return nil
		}

		member[e.pid] = e.pid == root || e.session == root && root != self
	}

	for grown := true; grown; {
		grown = false

		for _, e := range all {
			if !member[e.pid] && member[e.ppid] {
				member[e.pid], grown = true, true
			}
		}
	}

	var pids []int

	for _, e := range all {
		if member[e.pid] && e.dead == dead && e.pid != self {
			pids = append(pids, e.pid)
		}
	}

	return pids
}
