package opencode_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/agent"
	"github.com/rolloutd/rolloutd/internal/agent/agenttest"
	"github.com/rolloutd/rolloutd/internal/agent/opencode"
	"github.com/rolloutd/rolloutd/internal/agent/opencode/binary"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
	"github.com/rolloutd/rolloutd/internal/scripted"
)

// testAgent is a real OpenCode in a real sandbox that calls a scripted model through the model channel.
type testAgent struct {
	*agenttest.Place

	// the host's folder of agents
	agents string
}

func newTestAgent(t *testing.T, script string) *testAgent {
	t.Helper()
	return newTestAgentWithMount(t, script, true)
}

// newTestAgentWithMount creates a sandbox in which the host's folder of agents is mounted or, if not, gets
// an uploaded copy.
func newTestAgentWithMount(t *testing.T, script string, mounted bool) *testAgent {
	t.Helper()

	w, how := newTestAgentWithoutModel(t, mounted), "mounted"
	if !mounted {
		how = "uploaded"
	}

	w.ServeModel(t, script)
	said, err := w.agent().Install(t.Context(), w.Env())
	require.NoError(t, err)
	require.Contains(t, said, how)

	return w
}

// newTestAgentWithoutModel creates the sandbox without a model and without an installed agent.
func newTestAgentWithoutModel(t *testing.T, mounted bool) *testAgent {
	t.Helper()

	if testing.Short() {
		t.Skip("needs the real OpenCode, a download of 60 MB")
	}

	w := &testAgent{agents: agentsDir(t)}
	_, err := binary.New(binary.Options{AgentsDir: w.agents}).Fetch(t.Context())
	require.NoError(t, err)

	mount := w.agents
	if !mounted {
		mount = ""
	}

	w.Place = agenttest.NewPlaceWithoutModel(t, newBackend(t, mount))

	return w
}

// agentsDir returns the folder that keeps the binary between test runs.
func agentsDir(t *testing.T) string {
	t.Helper()

	if dir := os.Getenv("ROLLOUTD_TEST_AGENTS"); dir != "" {
		return dir
	}

	cache, err := os.UserCacheDir()
	require.NoError(t, err)

	return filepath.Join(cache, "rolloutd-test", "agents")
}

// agent returns a new Agent on each call, without the state of an earlier one.
func (w *testAgent) agent() *opencode.Agent {
	return opencode.New(opencode.Options{Binary: binary.New(binary.Options{AgentsDir: w.agents})})
}

// begin opens the agent and waits until it has accepted the job.
func (w *testAgent) begin(t *testing.T, a *opencode.Agent, job agent.Job) agent.Run {
	t.Helper()
	r, err := a.Open(t.Context(), w.Env(), job)
	require.NoError(t, err)
	t.Cleanup(r.Close)
	awaitReady(t, r)

	return r
}

// awaitReady waits until the agent has accepted its job, or ended. On a busy machine a try may end before its process
// listens.
func awaitReady(t *testing.T, r agent.Run) agent.Status {
	t.Helper()

	for {
		st, err := r.Next(t.Context())
		require.NoError(t, err)

		if st.Ready || st.Done {
			return st
		}
	}
}

// attach attaches a new Agent, as another worker does.
func (w *testAgent) attach(t *testing.T) agent.Run {
	t.Helper()
	r, err := w.agent().Attach(t.Context(), w.Env(), agent.Job{})
	require.NoError(t, err)
	t.Cleanup(r.Close)

	return r
}

// finish waits for the end of the job.
func (w *testAgent) finish(t *testing.T, r agent.Run) agent.Status {
	t.Helper()
	return agenttest.Finish(t, r)
}

// bash runs a command in the sandbox's workdir.
func (w *testAgent) bash(t *testing.T, name, command string) (output string, status int) {
	t.Helper()
	return w.run(t, name, command, "")
}

// run runs a bash command as a user of the sandbox; "" is the agent's user.
func (w *testAgent) run(t *testing.T, name, command, user string) (output string, status int) {
	t.Helper()
	_, err := w.Start(t.Context(), name, wire.Process{
		Argv: []string{"/bin/bash", "--noprofile", "--norc", "-c", command}, Dir: rollout.Workdir, User: user,
		Env: map[string]string{"PYTHONDONTWRITEBYTECODE": "1", "TESTS_DIR": wire.VerifierTests},
	})
	require.NoError(t, err)
	st, err := w.Wait(t.Context(), name, agenttest.Patience)
	require.NoError(t, err)
	require.False(t, st.Running)

	var all []byte

	for _, stream := range []string{"stdout", "stderr"} {
		text, err := w.Tail(t.Context(), st, stream, 4000)
		require.NoError(t, err)

		all = append(all, text...)
	}

	return string(all), st.ExitCode
}

func (w *testAgent) put(t *testing.T, path, text string) {
	t.Helper()
	require.NoError(t, w.WriteFile(t.Context(), rollout.Workdir+"/"+path, strings.NewReader(text), 0o644))
}

// lastUser returns the last user message that reached the model.
func lastUser(t *testing.T, s scripted.Sent) string {
	t.Helper()

	var r struct {
		Messages []struct {
			Role    string
			Content any
		}
	}
	require.NoError(t, json.Unmarshal(s.Request, &r))

	for i := len(r.Messages) - 1; i >= 0; i-- {
		if r.Messages[i].Role == "user" {
			return fmt.Sprint(r.Messages[i].Content)
		}
	}

	return ""
}
