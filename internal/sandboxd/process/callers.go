package process

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// Suffixes of the names of a named process's descendants; see wire.OriginHeader.
const (
	childSuffix = "/child"
	toolSuffix  = "/tool" + childSuffix
)

// callers is the set of a named process's descendants that make its model calls: those that run the program of a caller when the first reply
// reaches one of them. A model decides on nothing before its first reply, so no process that it starts is in the set.
type callers struct {
	mu       sync.Mutex
	programs map[program]bool // of the callers until the first reply
	members  map[int]identity // by process id; nil: there was no reply yet
}

// program identifies an executable file.
type program struct{ device, inode uint64 }

// identity identifies a process and its program. A process id may be used again, and a process may replace its program.
type identity struct {
	started string // in ticks since the boot
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
	if p.callers.members != nil {
		return
	}

	members := map[int]identity{}
	if all, err := procTable(); err == nil {
		for _, pid := range tree(all, p.pid, true) {
			if is, err := t.identify(p, pid); err == nil && p.callers.programs[is.program] {
				members[pid] = is
			}
		}
	}
	p.callers.members = members
}

// roleOf returns the suffix for a caller among the descendants of p, and "" for p itself.
func (t *Table) roleOf(p *Process, pid int) string {
	p.callers.mu.Lock()
	defer p.callers.mu.Unlock()
	replied := p.callers.members != nil
	if pid == p.pid && replied {
		return ""
	}
	is, err := t.identify(p, pid)

	if !replied && err == nil {
		if p.callers.programs == nil {
			p.callers.programs = map[program]bool{}
		}
		p.callers.programs[is.program] = true
	}
	was, member := p.callers.members[pid]
	switch {
	case pid == p.pid:
		return ""
	case !replied, err == nil && member && was == is:
		return childSuffix
	default:
		return toolSuffix
	}
}

// identify returns the identity of a process of the user of p, with that user's rights.
func (t *Table) identify(p *Process, pid int) (is identity, err error) {
	user, err := t.Users.Find(p.user)
	if err != nil {
		return identity{}, err
	}
	notRun := t.Users.Run(user, func() {
		var at unix.Stat_t
		if err = unix.Stat(fmt.Sprintf("/proc/%d/exe", pid), &at); err == nil {
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
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return "", fmt.Errorf("start of process %d: %w", pid, err)
	}
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) <= startField {
		return "", fault.New(fault.Internal, "start of process %d: its stat line has %d fields", pid, len(fields))
	}
	return string(fields[startField]), nil
}
