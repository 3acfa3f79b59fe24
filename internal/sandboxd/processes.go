package sandboxd

import (
	"log/slog"
	"maps"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

// maxProcesses bounds the names kept; each may hold up to 4 MiB of output.
const maxProcesses = 1024

// processes is the table of named processes. A name is never given to a second process, so a client that lost an answer can
// ask again.
type processes struct {
	launcher *launcher
	users    users
	names    *regexp.Regexp
	log      *slog.Logger

	// starting is held while a process starts, and while all are killed: nothing may start in between.
	starting sync.Mutex
	mu       sync.Mutex
	byName   map[string]*process
}

func newProcesses(o Options) *processes {
	return &processes{
		launcher: &launcher{program: o.Program, cgroups: o.Cgroups, reaper: newReaper()},
		users:    users{o.SeparateUsers},
		names:    regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$`),
		log:      o.Logger,
		byName:   map[string]*process{},
	}
}

// start starts the process, or returns the one of that name.
func (t *processes) start(name string, spec wire.Process) (*process, error) {
	if !t.names.MatchString(name) {
		return nil, fault.Field("name", "%q must be 1 to 64 letters, digits, '.', '_' or '-'", name)
	}
	t.starting.Lock()
	defer t.starting.Unlock()
	if p, err := t.get(name); err == nil {
		return p, nil
	}
	if len(t.all()) >= maxProcesses {
		return nil, fault.New(fault.Exhausted, "%d processes were started already", maxProcesses)
	}
	p, err := t.spawn(name, spec)
	if err != nil {
		return nil, fault.Wrap(kindOf(err), err, "start %q", name)
	}
	t.mu.Lock()
	t.byName[name] = p
	t.mu.Unlock()
	t.log.Info("process started", "name", name, "pid", p.pid)
	if d := time.Duration(spec.TimeoutMillis) * time.Millisecond; d > 0 {
		timer := time.AfterFunc(d, func() { p.expire(t.kill) })
		go func() { <-p.done; timer.Stop() }()
	}
	return p, nil
}

func (t *processes) get(name string) (*process, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p, ok := t.byName[name]; ok {
		return p, nil
	}
	return nil, fault.New(fault.NotFound, "no process %q was started", name)
}

func (t *processes) all() []*process {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Collect(maps.Values(t.byName))
}
