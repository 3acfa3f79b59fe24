package process

import (
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/sandboxd/prestart"
	"github.com/rolloutd/rolloutd/internal/sandboxd/runas"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

// spawn starts the program with its own session, exactly the given environment, and only its three streams
// as open files: pipes, or tty if that is not nil.
func (t *Table) spawn(name string, spec wire.Process, tty *os.File) (*Process, error) {
	if len(spec.Argv) == 0 || spec.Argv[0] == "" {
		return nil, fault.Field("argv", "has no program")
	}

	user, err := t.Users.Find(spec.User)
	if err != nil {
		return nil, err
	}

	files := &streams{stdin: tty, childStdout: tty, childStderr: tty}
	if tty == nil {
		if files, err = openStreams(spec.Stdin); err != nil {
			return nil, err
		}
		defer files.closeChild()
	}

	env, noExec := t.environment(spec), []string(nil)
	path := env["PATH"]

	if spec.User == wire.VerifierUser {
		noExec = t.noExec
	}

	if spec.Dispatch {
		if env, err = t.dispatching(env); err != nil {
			return nil, err
		}
	}

	p := &Process{name: name, user: spec.User, started: time.Now(), done: make(chan struct{})}

	p.stdout.maxKept, p.stderr.maxKept = spec.KeepBytes, spec.KeepBytes
	if after := time.Duration(spec.PauseAfterMillis) * time.Millisecond; after > 0 {
		p.pauser = &pauser{process: p, after: after, reclaim: t.reclaim, reclaimAfter: reclaimAfter}
	}

	pid, exited, err := t.launcher.launch(prestart.Config{
		Argv:     spec.Argv,
		Env:      environ(env),
		Path:     path,
		Dir:      t.workdir.Locate(spec.Dir),
		User:     user,
		Terminal: tty != nil,
		NoExec:   noExec,
	}, files.child())
	if err != nil {
		files.closeParent()
		return nil, err
	}

	p.pid = pid
	go p.collect(files.stdout, files.stderr, exited)

	return p, nil
}

// environment returns the process's variables on top of the base environment.
func (t *Table) environment(spec wire.Process) map[string]string {
	base := t.env.Agent
	if spec.User == wire.VerifierUser {
		base = t.env.Verifier
	}

	if len(base) == 0 {
		return spec.Env
	}

	env := maps.Clone(base)
	maps.Copy(env, spec.Env)

	if base["PATH"] != "" && spec.Env["PATH"] != "" {
		env["PATH"] = strings.Replace(spec.Env["PATH"], wire.SystemPath, base["PATH"], 1)
	}

	return env
}

// dispatching adds to a verifier's environment what decides where the programs that it starts run; see package runas.
func (t *Table) dispatching(env map[string]string) (map[string]string, error) {
	var err error

	t.shims.Do(func() { err = runas.MakeShims(env["PATH"]) })

	if err != nil {
		return nil, fault.Wrap(fault.Internal, err, "make the verifier's programs")
	}

	env = maps.Clone(env)
	env["PATH"] = runas.Shims + ":" + env["PATH"]

	env["PYTHONPATH"] = strings.Trim(runas.PythonHooks+":"+env["PYTHONPATH"], ":")
	if len(t.noExec) > 0 {
		env[runas.WorkFolders] = strings.Join(t.noExec, ":")
	}

	return env, nil
}

func environ(env map[string]string) []string {
	list := make([]string, 0, len(env))
	for k, v := range env {
		list = append(list, k+"="+v)
	}

	slices.Sort(list)

	return list
}
