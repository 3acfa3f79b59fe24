package e2btest

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"

	"github.com/rolloutd/rolloutd/internal/driver/e2b/envd"
)

// process is a process that envd started.
type process struct {
	pid    int
	config envd.ProcessConfig
	cmd    *exec.Cmd

	// nil: none
	stdin io.WriteCloser

	// it has ended
	done chan struct{}

	mu       sync.Mutex
	watchers map[*watcher]bool
}

// watcher receives the events of a process.
type watcher struct {
	events chan envd.Event
	gone   chan struct{}
}

// table holds the processes of a machine.
type table struct {
	mu  sync.Mutex
	all map[int]*process
}

func (t *table) find(pid int) *process {
	t.mu.Lock()
	defer t.mu.Unlock()

	return t.all[pid]
}

// start starts a process under /bin/sh, as envd does.
func (m *machine) start(r *envd.StartRequest, uid int, home string) (*process, *watcher, error) {
	dir := r.Process.Cwd
	if dir == "" {
		dir = home
	}

	cmd := m.command(uid, dir, append([]string{"/bin/sh", "-c", `exec "$0" "$@"`, r.Process.Cmd}, r.Process.Args...)...)

	cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=" + home}
	for name, value := range r.Process.Envs {
		cmd.Env = append(cmd.Env, name+"="+value)
	}

	p := &process{config: r.Process, cmd: cmd, done: make(chan struct{}), watchers: map[*watcher]bool{}}

	var err error
	if r.Stdin {
		if p.stdin, err = cmd.StdinPipe(); err != nil {
			return nil, nil, err
		}
	}

	var outputs [2]*os.File

	for i, to := range []*io.Writer{&cmd.Stdout, &cmd.Stderr} {
		from, in, err := os.Pipe()
		if err != nil {
			return nil, nil, err
		}
		defer in.Close()

		outputs[i], *to = from, in
	}

	if err := cmd.Start(); err != nil {
		return nil, nil, errors.Join(err, outputs[0].Close(), outputs[1].Close())
	}

	p.pid = cmd.Process.Pid
	w := p.watch()

	m.processes.mu.Lock()
	if m.processes.all == nil {
		m.processes.all = map[int]*process{}
	}

	m.processes.all[p.pid] = p

	m.processes.mu.Unlock()
	go m.follow(p, outputs)

	return p, w, nil
}

// follow passes on output until the process has ended and its streams are closed.
func (m *machine) follow(p *process, outputs [2]*os.File) {
	var reads sync.WaitGroup
	reads.Go(func() { p.pass(outputs[0], func(b []byte) *envd.DataEvent { return &envd.DataEvent{Stdout: b} }) })
	reads.Go(func() { p.pass(outputs[1], func(b []byte) *envd.DataEvent { return &envd.DataEvent{Stderr: b} }) })
	reads.Wait()
	// the state has the result
	_ = p.cmd.Wait()

	m.processes.mu.Lock()
	delete(m.processes.all, p.pid)
	m.processes.mu.Unlock()

	state := p.cmd.ProcessState
	p.tell(envd.Event{End: &envd.EndEvent{ExitCode: state.ExitCode(), Exited: state.Exited(), Status: state.String()}})
	close(p.done)
}

func (p *process) pass(from *os.File, event func([]byte) *envd.DataEvent) {
	defer from.Close()

	piece := make([]byte, 32<<10)
	for {
		n, err := from.Read(piece)
		if n > 0 {
			p.tell(envd.Event{Data: event(append([]byte(nil), piece[:n]...))})
		}

		if err != nil {
			return
		}
	}
}

func (p *process) watch() *watcher {
	w := &watcher{events: make(chan envd.Event), gone: make(chan struct{})}

	p.mu.Lock()
	defer p.mu.Unlock()

	p.watchers[w] = true

	return w
}

func (p *process) unwatch(w *watcher) {
	close(w.gone)
	p.mu.Lock()
	defer p.mu.Unlock()

	delete(p.watchers, w)
}

// tell sends an event to all watchers. Without one it is lost.
func (p *process) tell(e envd.Event) {
	p.mu.Lock()

	var all []*watcher
	for w := range p.watchers {
		all = append(all, w)
	}
	p.mu.Unlock()

	for _, w := range all {
		select {
		case w.events <- e:
		case <-w.gone:
		}
	}
}

// signal signals the process itself, not its children.
func (p *process) signal(s syscall.Signal) error {
	// outside, nsenter is its parent
	children, err := childrenOf(p.pid)
	for _, child := range children {
		err = errors.Join(err, syscall.Kill(child, s))
	}

	return err
}
