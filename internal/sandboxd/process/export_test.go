package process

import (
	"context"
	"fmt"
	"net"
	"os"
	"time"
)

// Exported for tests: parsers of input from inside the sandbox, and the output buffer. They need more cases
// than tests with real processes can cover.
var ParseStat = parseStat

// Keep is how much of each end of a stream is kept.
const Keep = maxKeep

// Entry is a row of the process table.
type Entry = procEntry

// MakeEntry makes an Entry.
func MakeEntry(pid, ppid, session int, dead bool) Entry {
	return procEntry{pid: pid, ppid: ppid, session: session, dead: dead}
}

// Tree returns the processes that a kill of root kills.
var Tree = tree

// Two ways to find the client of a connection and the listeners of a port: the kernel's socket diagnosis,
// and /proc/net.
var (
	Connected     = connected
	ReadClient    = readClient
	Listening     = inodesOf(listening)
	ReadListeners = inodesOf(readListeners)
)

func inodesOf(find func(uint16) ([]listener, error)) func(uint16) ([]uint64, error) {
	return func(port uint16) (inodes []uint64, err error) {
		found, err := find(port)
		for _, l := range found {
			inodes = append(inodes, l.inode)
		}

		return inodes, err
	}
}

// FindSocket finds the descriptor of a socket in a process. It tries the descriptor first before all others.
func FindSocket(pid int, inode uint64, first string) (descriptor string, found bool) {
	budget := maxDescriptors
	return findSocket(holding{pid, inode}, first, &budget)
}

// RepeatKill kills the processes that pick returns until it returns none.
func RepeatKill(pick func() []int) error {
	return repeatKill(func([]procEntry) []int { return pick() })
}

// MaxProcesses is the maximum number of names in a table.
const MaxProcesses = maxProcesses

// Fill adds n names of ended processes to a table.
func (t *Table) Fill(n int) {
	ended := make(chan struct{})
	close(ended)

	for i := range n {
		name := fmt.Sprint("p", i)
		t.byName[name] = &Process{name: name, done: ended}
	}
}

// ServeRunAsOn serves run-as-agent on a socket of the test.
func (t *Table) ServeRunAsOn(ctx context.Context, l *net.UnixListener) error {
	return (&runAs{table: t, slots: make(chan struct{}, 1)}).serve(ctx, l)
}

// Pause simulates a model call of a running process. The process is stopped after a millisecond, and its
// memory is swapped out through reclaim after another one.
func Pause(pid int, reclaim *os.File) (end func()) {
	w := &pauser{
		process:      &Process{pid: pid, done: make(chan struct{})},
		after:        time.Millisecond,
		reclaim:      reclaim,
		reclaimAfter: time.Millisecond,
	}
	w.change(1, 0)

	return func() { w.change(-1, 0) }
}
