package process

import (
	"context"
	"log/slog"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/sandboxd/reply"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

// maxProcesses bounds the number of names; each may hold up to 4 MiB of output.
const maxProcesses = 1024

// Table holds the named processes. A name is reused only after its process was deleted, so a client that
// lost an answer can ask again.
type Table struct {
	launcher *launcher
	Users    Users

	// nil: none
	reclaim *os.File
	startIn wire.Workdir
	env     wire.BaseEnv

	// a process that KillAll keeps; 0: none
	spared int

	// folders that the graded work may write
	work []string

	// those below which the verifier's processes execute nothing
	noExec []string

	// all other processes of this process namespace are the table's
	ownNamespace bool
	log          *slog.Logger
	seen         descriptors

	// starting is held while a process starts and while all are killed, so that none starts meanwhile.
	starting sync.Mutex

	// tool calls start no further process; guarded by starting
	closed bool

	// the verifier's programs are made, see runas.MakeShims; guarded by starting
	hasShims bool

	mu     sync.Mutex
	byName map[string]*Process
}

// Options configures a Table; only Program is required.
type Options struct {
	// see Users
	SeparateUsers bool

	// the agent's user, if users are separate
	Agent Agent

	// where processes of the workdir start, if they can enter it: by the name that the image has for it
	StartIn wire.Workdir

	// base environment of processes
	Env wire.BaseEnv

	// the sandboxd binary, which starts processes
	Program string

	// files by which every process enters its cgroups
	Cgroups []*os.File

	// version 2 folder into which processes are forked instead, unless it is full; nil: none
	Cgroup *os.File

	// file that swaps out their memory while one is stopped; nil: none
	Reclaim *os.File

	// folders that the graded work may write, beside a verifier
	Work []string

	// those below which the kernel lets the verifier's processes execute nothing
	NoExec []string

	// a process that KillAll keeps: the first one of the work's processes; 0: none
	Spared int

	// all other processes of this process namespace are the table's
	OwnNamespace bool
	Logger       *slog.Logger
}

// New returns a Table. It becomes the reaper of this process's children: Run must be running before the
// first process starts.
func New(o Options) *Table {
	// see proc; each use returns its error
	_, _ = proc()

	return &Table{
		launcher:     &launcher{program: o.Program, cgroups: o.Cgroups, cgroup: o.Cgroup, reaper: newReaper()},
		Users:        Users{o.SeparateUsers, o.Agent},
		reclaim:      o.Reclaim,
		startIn:      o.StartIn,
		env:          o.Env,
		spared:       o.Spared,
		work:         o.Work,
		noExec:       o.NoExec,
		ownNamespace: o.OwnNamespace,
		log:          o.Logger,
		seen:         descriptors{at: map[holding]string{}},
		byName:       map[string]*Process{},
	}
}

// Start starts the process, or returns the one of that name.
func (t *Table) Start(name string, spec wire.Process) (*Process, error) {
	t.starting.Lock()
	defer t.starting.Unlock()

	return t.start(name, spec, nil)
}

// StartCall is Start for a process of a policy's tool call. If tty is not nil, it is the process's streams
// and controlling terminal; then no output is kept and spec.Stdin is ignored. After KillAll the error is a
// fault.Aborted: no late call may change what is graded.
func (t *Table) StartCall(name string, spec wire.Process, tty *os.File) (*Process, error) {
	t.starting.Lock()
	defer t.starting.Unlock()

	if t.closed {
		return nil, fault.New(fault.Aborted, "the sandbox accepts no more tool calls: all its processes were ended")
	}

	return t.start(name, spec, tty)
}

// start starts a process. starting is held.
func (t *Table) start(name string, spec wire.Process, tty *os.File) (*Process, error) {
	if !wire.Name(name, 64) {
		return nil, fault.Field("name", "%q must be 1 to 64 letters, digits, '.', '_' or '-'", name)
	}

	if p, err := t.Get(name); err == nil {
		return p, nil
	}

	if len(t.all()) >= maxProcesses {
		return nil, fault.New(fault.Exhausted, "%d processes were started already", maxProcesses)
	}

	p, err := t.spawn(name, spec, tty)
	if err != nil {
		return nil, fault.Wrap(reply.Kind(err), err, "start %q", name)
	}

	t.mu.Lock()
	t.byName[name] = p
	t.mu.Unlock()
	t.log.Info("process started", "name", name, "pid", p.pid)

	if d := time.Duration(spec.TimeoutMillis) * time.Millisecond; d > 0 {
		timer := time.AfterFunc(d, func() { p.expire(t.Kill) })

		go func() { <-p.done; timer.Stop() }()
	}

	return p, nil
}

// Get returns the process of that name, running or ended; fault.NotFound: there is none.
func (t *Table) Get(name string) (*Process, error) {
	t.mu.Lock()
	defer t.mu.Unlock()

	if p, ok := t.byName[name]; ok {
		return p, nil
	}

	return nil, fault.New(fault.NotFound, "no process %q was started", name)
}

// Delete removes an ended process and its output; its name may then be reused. It keeps a running one.
func (t *Table) Delete(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()

	if p, ok := t.byName[name]; ok && !p.Running() {
		delete(t.byName, name)
	}
}

func (t *Table) all() []*Process {
	t.mu.Lock()
	defer t.mu.Unlock()

	return slices.Collect(maps.Values(t.byName))
}

// Run reaps ended processes until ctx ends. After that no process is stopped.
func (t *Table) Run(ctx context.Context) error {
	err := t.launcher.reaper.run(ctx)
	for _, w := range t.pausers() {
		w.close()
	}

	return err
}
