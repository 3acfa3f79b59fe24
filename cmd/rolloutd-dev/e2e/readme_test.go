package e2e

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/producer"
	"github.com/rolloutd/rolloutd/internal/testkit/child"
)

// The test runs the lines of README that lead from a task set to a trainer, and changes only the addresses.
// All roles are killed after the trainer's first step. The trainer trains on each group once.
func TestReadmeTrains(t *testing.T) {
	t.Parallel()
	lines := readmeLines(t)

	const tasks, epochs = 3, 2

	api := freePorts(t, 1)[0]
	local := strings.NewReplacer("127.0.0.1:8001", api, "bin/rolloutd ", filepath.Join(bin, "rolloutd")+" ")
	srv := startDev(t, devOptions{flags: []string{"--config", configFile(t, local.Replace(lines.config))}})
	produce := shell(t, srv, local.Replace(lines.produce)+" --producer-id readme")
	out, err := produce.CombinedOutput()
	require.NoError(t, err, "%s", out)

	trainer := startTrainer(t, srv, local.Replace(lines.trainer))
	trainer.awaitSteps(t, 1)
	srv.kill()
	srv = srv.restart(t)
	trainer.awaitEnd(t)
	require.True(t, trainer.cmd.ProcessState.Success(), tail(trainer.log))

	steps := trainer.steps(t)
	require.Len(t, steps, tasks*epochs)

	want := map[string]int{}
	for i := range tasks * epochs {
		want[producer.GroupID("readme", producer.Cursor{Number: int64(i)})] = i
	}

	for i, s := range steps {
		require.Equal(t, fmt.Sprint(i), s[1])
		require.Contains(t, want, s[2])
		// each group is trained on once
		delete(want, s[2])
		require.NotEqual(t, "0", s[3], "there are tokens to train on")
	}

	s := waitProducer(t, srv.url, "readme")
	require.Equal(t, producer.Completed, s.Outcome, s.Error)
	require.Equal(t, int64(tasks*epochs), s.Counts.Delivered, "%+v", s.Counts)
	require.Empty(t, srv.sandboxes(t))
}

// readme has the lines of README that the test runs.
type readme struct{ config, produce, trainer string }

func readmeLines(t *testing.T) (r readme) {
	t.Helper()

	text, err := os.ReadFile(filepath.Join("..", "..", "..", "README.md"))
	require.NoError(t, err)

	part := func(pattern string) string {
		found := regexp.MustCompile(pattern).FindAllStringSubmatch(string(text), -1)
		require.Len(t, found, 1, pattern)

		return found[0][1]
	}
	r.config = part(`(?s)cat > config\.yaml <<'END'\n(.*?)END\n`)
	r.produce = part(`(?m)^(bin/rolloutd produce --tasks .*)$`)
	r.trainer = part(`(?m)^(python3 examples/atropos_consumer\.py [^&]*)&`)

	return r
}

// shell returns a command that runs a line in the root of the repository, with srv as its server.
func shell(t *testing.T, srv *dev, line string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "bash", "-c", "exec "+line)
	cmd.Dir = filepath.Join("..", "..", "..")

	cmd.Env = append(environ(), "ROLLOUTD_SERVER="+srv.url, "PYTHONDONTWRITEBYTECODE=1")

	return cmd
}

// startTrainer starts the example trainer, which exits by itself.
func startTrainer(t *testing.T, srv *dev, line string) *trainerProcess {
	t.Helper()

	if _, err := exec.LookPath("python3"); err != nil {
		require.Empty(t, os.Getenv("CI"), "CI must have python3")
		t.Skip("python3 is not installed")
	}

	log, err := os.Create(filepath.Join(t.TempDir(), "trainer.log"))
	require.NoError(t, err)

	defer log.Close()

	p := &trainerProcess{&process{cmd: shell(t, srv, line), log: log.Name()}}
	p.cmd.Stdout, p.cmd.Stderr = log, log

	p.done, err = child.Start(p.cmd, syscall.SIGKILL)
	require.NoError(t, err)
	t.Cleanup(func() { <-p.done })

	return p
}

type trainerProcess struct{ *process }

var stepLine = regexp.MustCompile(`(?m)^step (\d+): (\S+)-[0-9a-f]{12}: advantages .*, (\d+) tokens to train on$`)

// steps returns the steps that the trainer has printed: whole line, step, group, tokens.
func (p *trainerProcess) steps(t *testing.T) (all [][]string) {
	t.Helper()

	text, err := os.ReadFile(p.log)
	require.NoError(t, err)

	text = text[:bytes.LastIndexByte(text, '\n')+1]

	return stepLine.FindAllStringSubmatch(string(text), -1)
}

func (p *trainerProcess) awaitSteps(t *testing.T, n int) {
	t.Helper()
	require.Eventually(t, func() bool { return len(p.steps(t)) >= n }, 5*time.Minute, 200*time.Millisecond, "no step")
}

func (p *trainerProcess) awaitEnd(t *testing.T) {
	t.Helper()

	select {
	case <-p.done:
	case <-time.After(5 * time.Minute):
		require.Fail(t, "the trainer does not get all groups", "%s", tail(p.log))
	}
}
