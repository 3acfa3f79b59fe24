package pyclient

import (
	"bufio"
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

//go:embed fork.py
var forkScript string

// forks is a process that has imported modules and runs scripts in forks of itself.
type forks struct {
	// of the process; read after its end
	errors bytes.Buffer
	ended  chan struct{}

	mu    sync.Mutex
	input io.Writer
	next  int

	// by id of the request
	codes map[int]chan int
}

// Preloaded returns the interpreter with the modules imported once, which takes seconds: its scripts run in
// forks of one process, which ends with the test.
func (p Python) Preloaded(t *testing.T, modules ...string) Python {
	t.Helper()
	script := filepath.Join(t.TempDir(), "fork.py")
	require.NoError(t, os.WriteFile(script, []byte(forkScript), 0o600))
	cmd := p.Command(t, append([]string{script}, modules...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	f := &forks{ended: make(chan struct{}), codes: map[int]chan int{}}
	cmd.Stderr = &f.errors
	input, err := cmd.StdinPipe()
	require.NoError(t, err)
	output, err := cmd.StdoutPipe()
	require.NoError(t, err)

	f.input = input

	require.NoError(t, cmd.Start())

	go func() {
		defer close(f.ended)

		f.listen(output)
		// it ends by SIGKILL
		_ = cmd.Wait()
	}()

	t.Cleanup(func() {
		_ = input.Close()

		<-f.ended
	})

	p.forks = f

	return p
}

// listen sends each script's exit code to its run, until the process ends.
func (f *forks) listen(output io.Reader) {
	for lines := bufio.NewScanner(output); lines.Scan(); {
		var done struct{ ID, Code int }
		if json.Unmarshal(lines.Bytes(), &done) != nil {
			continue
		}

		f.mu.Lock()
		f.codes[done.ID] <- done.Code
		f.mu.Unlock()
	}
}

// run runs a script and returns its output.
func (f *forks) run(t *testing.T, argv []string) (string, error) {
	t.Helper()
	output := filepath.Join(t.TempDir(), "output")
	require.NoError(t, os.WriteFile(output, nil, 0o600))

	code := make(chan int, 1)

	f.mu.Lock()
	f.next++
	f.codes[f.next] = code
	err := json.NewEncoder(f.input).Encode(map[string]any{"id": f.next, "argv": argv, "output": output})
	f.mu.Unlock()

	if err != nil {
		// the process takes no more scripts
		code = nil
	}

	select {
	case n := <-code:
		if n != 0 {
			err = fmt.Errorf("exit status %d", n)
		}
	case <-f.ended:
		err = errors.New("the process of the forks ended: " + f.errors.String())
	}

	text, readErr := os.ReadFile(output)

	return string(text), errors.Join(err, readErr)
}
