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
	config, err := t.configOf(spec)
	if err != nil {
		return nil, err
	}

	config.Terminal = tty != nil

	files := &streams{stdin: tty, childStdout: tty, childStderr: tty}
	if tty == nil {
		if files, err = openStreams(spec.Stdin); err != nil {
			return nil, err
		}
		defer files.closeChild()
	}

	p := &Process{name: name, user: spec.User, started: time.Now(), done: make(chan struct{})}

	p.stdout.maxKept, p.stderr.maxKept = spec.KeepBytes, spec.KeepBytes
	if after := time.Duration(spec.PauseAfterMillis) * time.Millisecond; after > 0 {
		p.pauser = &pauser{process: p, after: after, reclaim: t.reclaim, reclaimAfter: reclaimAfter}
	}

	pid, exited, err := t.launcher.launch(config, files.child())
	if err != nil {
		files.closeParent()
		return nil, err
	}

	p.pid = pid
	go p.collect(files.stdout, files.stderr, exited)

	return p, nil
}

// configOf returns how the program is started, but for its streams. starting is held.
func (t *Table) configOf(spec wire.Process) (c prestart.Config, err error) {
	if len(spec.Argv) == 0 || spec.Argv[0] == "" {
		return c, fault.Field("argv", "has no program")
	}

	c = prestart.Config{Argv: spec.Argv, Dir: t.startIn.Locate(spec.Dir), OrDir: spec.Dir}
	if c.User, err = t.Users.Find(spec.User); err != nil {
		return c, err
	}

	if spec.User == wire.VerifierUser {
		c.NoExec = t.noExec
	}

	env := t.environment(spec)
	// without the shims, which are for what the program starts
	c.Path = env["PATH"]

	if spec.Dispatch {
		if env, err = t.dispatching(env); err != nil {
			return c, err
		}
	}

	c.Env = environ(env)

	return c, nil
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
// starting is held.
func (t *Table) dispatching(env map[string]string) (map[string]string, error) {
	if !t.hasShims {
		if err := runas.MakeShims(env["PATH"]); err != nil {
			return nil, fault.Wrap(fault.Internal, err, "make the verifier's programs")
		}

		t.hasShims = true
	}

	env = maps.Clone(env)
	env["PATH"] = runas.Shims + ":" + env["PATH"]

	env["PYTHONPATH"] = strings.Trim(runas.PythonHooks+":"+env["PYTHONPATH"], ":")
	if len(t.work) > 0 {
		env[runas.WorkFolders] = strings.Join(t.work, ":")
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
