package process

import (
	"context"
	"fmt"
	"net"
	"os"
	"time"
)

// Exported for tests: the parts whose input comes from inside the sandbox, and the ring of output, which are worth more cases
// than can be had through processes.
var ParseStat = parseStat

// Keep is how much of each end of a stream is kept.
const Keep = maxKeep

// Entry is a line of the process table.
type Entry = procEntry

// MakeEntry makes one.
func MakeEntry(pid, ppid, session int, dead bool) Entry {
	return procEntry{pid: pid, ppid: ppid, session: session, dead: dead}
}

// Tree picks what a kill of root takes.
var Tree = tree

// Two ways to find a connection's client and the listeners of a port: the kernel's socket diagnosis, and /proc/net.
var (
	Connected     = connected
	ReadClient    = readClient
	Listening     = listening
	ReadListeners = readListeners
)

// FindSocket finds the descriptor of a socket in a process, beginning at one.
func FindSocket(pid int, inode uint64, first string) (descriptor string, found bool) {
	budget := maxDescriptors
	return findSocket(holding{pid, inode}, first, &budget)
}

// RepeatKill kills what is picked until nothing is.
func RepeatKill(pick func() []int) error {
	return repeatKill(func([]procEntry) []int { return pick() })
}

// MaxProcesses is how many names a table keeps.
const MaxProcesses = maxProcesses

// Fill gives a table n names of processes that have ended.
func (t *Table) Fill(n int) {
	ended := make(chan struct{})
	close(ended)
	for i := range n {
		name := fmt.Sprint("p", i)
		t.byName[name] = &Process{name: name, done: ended}
	}
}

// ServeRunAsOn serves run-as-agent on a socket of the test's.
func (t *Table) ServeRunAsOn(ctx context.Context, l *net.UnixListener) error {
	return (&runAs{table: t, slots: make(chan struct{}, 1)}).serve(ctx, l)
}

// Pause takes in a model call of a running process, which is stopped after a millisecond. Its memory is swapped out through reclaim after another one.
func Pause(pid int, reclaim *os.File) (end func()) {
	w := &pauser{process: &Process{pid: pid, done: make(chan struct{})}, after: time.Millisecond, reclaim: reclaim, reclaimAfter: time.Millisecond}
	w.change(1, 0)
	return func() { w.change(-1, 0) }
}
