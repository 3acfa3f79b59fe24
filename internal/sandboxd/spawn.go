package sandboxd

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

// spawn starts the program with its own session, exactly the given environment, and no file but its three streams.
func (t *processes) spawn(name string, spec wire.Process) (*process, error) {
	if len(spec.Argv) == 0 || spec.Argv[0] == "" {
		return nil, fault.Field("argv", "names no program")
	}
	if err := checkDir(spec.Dir); err != nil {
		return nil, err
	}
	program, err := lookPath(spec.Argv[0], spec.Dir, spec.Env["PATH"])
	if err != nil {
		return nil, err
	}
	files, err := openStreams(spec.Stdin)
	if err != nil {
		return nil, err
	}
	defer files.closeChild()
	p := &process{name: name, started: time.Now(), done: make(chan struct{})}
	pid, exited, err := t.reaper.start(func() (int, error) {
		defer t.oom.raise()()
		return syscall.ForkExec(program, spec.Argv, &syscall.ProcAttr{
			Dir:   spec.Dir,
			Env:   environ(spec.Env),
			Files: files.child(),
			Sys:   &syscall.SysProcAttr{Setsid: true},
		})
	})
	if err != nil {
		files.closeOwn()
		return nil, err
	}
	p.pid = pid
	go p.collect(files.stdout, files.stderr, exited)
	return p, nil
}

func checkDir(dir string) error {
	if !filepath.IsAbs(dir) {
		return fault.Field("dir", "%q must be an absolute path", dir)
	}
	if st, err := os.Stat(dir); err != nil || !st.IsDir() {
		return fault.Field("dir", "%q is not a directory of the sandbox", dir)
	}
	return nil
}

// lookPath finds the program as a shell with that directory and PATH would.
func lookPath(program, dir, path string) (string, error) {
	if strings.Contains(program, "/") {
		return executable(program, dir)
	}
	for _, folder := range filepath.SplitList(path) {
		if found, err := executable(filepath.Join(folder, program), dir); err == nil {
			return found, nil
		}
	}
	return "", fault.Field("argv", "no program %q in PATH %q", program, path)
}

func executable(path, dir string) (string, error) {
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	st, err := os.Stat(path)
	if err != nil || st.IsDir() || unix.Access(path, unix.X_OK) != nil {
		return "", fault.Field("argv", "%q is not a program of the sandbox", path)
	}
	return path, nil
}

func environ(env map[string]string) []string {
	list := make([]string, 0, len(env))
	for k, v := range env {
		list = append(list, k+"="+v)
	}
	slices.Sort(list)
	return list
}
