package process

import (
	"bytes"
	"fmt"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// Suffixes of the names of a named process's descendants; see wire.OriginHeader.
const (
	childSuffix  = "/child"
	helperSuffix = "/helper" + childSuffix
	toolSuffix   = "/tool" + childSuffix
)

// maxCallers bounds the callers that are remembered.
const maxCallers = 1024

// callers has the processes that made model calls for a named process until the first reply reached one of them. A
// model decides on nothing before its first reply, so it started none of them.
type callers struct {
	mu sync.Mutex

	// the first reply was passed on; first does not change any more
	replied bool

	// by process id
	first map[int]identity
}

// program identifies an executable file.
type program struct{ device, inode uint64 }

// identity identifies a process and its program. A process id may be used again, and a process may replace its program.
type identity struct {
	// in ticks since the boot
	started string
	program program
}

// Replied records that a model's reply is about to reach a process; origin is its name as Origin returned it.
func (t *Table) Replied(origin string) {
	name, _, _ := strings.Cut(origin, "/")

	p, err := t.Get(name)
	if err != nil {
		return
	}

	p.callers.mu.Lock()
	defer p.callers.mu.Unlock()

	p.callers.replied = true
}

// ran reports whether one of the first callers ran the program. mu is held.
func (c *callers) ran(is program) bool {
	for _, was := range c.first {
		if was.program == is {
			return true
		}
	}

	return false
}

// suffixOf returns the suffix for a caller: p itself, or one of its descendants.
func (t *Table) suffixOf(p *Process, pid int) string {
	c := &p.callers
	c.mu.Lock()
	defer c.mu.Unlock()

	if pid == p.pid && c.replied {
		return ""
	}

	is, err := t.identify(p, pid)

	switch was, known := c.first[pid]; {
	case !c.replied:
		c.remember(pid, is, err)

		if pid == p.pid {
			return ""
		}

		return childSuffix
	case err == nil && known && was == is:
		return childSuffix
	case err == nil && c.ran(is.program) && isChild(pid, p.pid) && !t.firstCallerLives(p):
		return helperSuffix
	default:
		return toolSuffix
	}
}

// remember adds a caller before the first reply. mu is held.
func (c *callers) remember(pid int, is identity, err error) {
	if err != nil || len(c.first) >= maxCallers {
		return
	}

	if c.first == nil {
		c.first = map[int]identity{}
	}

	c.first[pid] = is
}

// isChild reports whether a process is a child of the parent.
func isChild(pid, parent int) bool {
	stat, err := readProc(fmt.Sprintf("%d/stat", pid))
	if err != nil {
		return false
	}

	e, err := parseStat(pid, stat)

	return err == nil && e.ppid == parent
}

// firstCallerLives reports whether one of the first callers still runs its program: then it is the one that makes the
// agent's calls. The lock of p.callers is held.
func (t *Table) firstCallerLives(p *Process) bool {
	for pid, was := range p.callers.first {
		if is, err := t.identify(p, pid); err == nil && is == was {
			return true
		}
	}

	return false
}

// identify returns the identity of a process of the user of p, with that user's rights.
func (t *Table) identify(p *Process, pid int) (is identity, err error) {
	user, err := t.Users.Find(p.user)
	if err != nil {
		return identity{}, err
	}

	notRun := t.Users.Run(user, func() {
		var at unix.Stat_t
		if at, err = statProc(fmt.Sprintf("%d/exe", pid)); err == nil {
			is.program = program{at.Dev, at.Ino}
			is.started, err = startOf(pid)
		}
	})
	if notRun != nil {
		return identity{}, notRun
	}

	return is, err
}

// startField is the position of the start time in a stat line, counted from the state, which follows the command.
const startField = 19

// startOf returns when a process started, in ticks since the boot.
func startOf(pid int) (string, error) {
	stat, err := readProc(fmt.Sprintf("%d/stat", pid))
	if err != nil {
		return "", fmt.Errorf("start of process %d: %w", pid, err)
	}

	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) <= startField {
		return "", fault.New(fault.Internal, "start of process %d: its stat line has %d fields", pid, len(fields))
	}

	return string(fields[startField]), nil
}
