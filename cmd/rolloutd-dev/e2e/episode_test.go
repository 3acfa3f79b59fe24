package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/testkit/pyclient"
)

// The clients are the published OpenEnv client of each release, the MCP client, and an environment for
// TRL's environment_factory.
func TestEpisodeClients(t *testing.T) {
	t.Parallel()

	srv := startDev(t, devOptions{})
	for _, release := range pyclient.Releases() {
		t.Run(release.Name, func(t *testing.T) {
			t.Parallel()
			pyclient.Interpreter(t, release).Run(t, filepath.Join("testdata", "episode.py"), srv.url)
		})
	}
}

// stepReply is the answer to a step or a reset.
type stepReply struct {
	Observation struct {
		RolloutID string `json:"rollout_id"`
		Result    *struct {
			Data    string `json:"data"`
			IsError bool   `json:"is_error"`
		} `json:"result"`
		Error *struct {
			Message string `json:"message"`
		} `json:"error"`
	} `json:"observation"`
	Reward *float64 `json:"reward"`
	Done   bool     `json:"done"`
}

// player is an HTTP client of an episode with a session name.
type player struct {
	url, session string
}

// post sends a request and decodes the answer. It returns an error if the server is not reachable.
func (p player) post(path string, body any) (r stepReply, err error) {
	raw, err := json.Marshal(body)
	if err != nil {
		return r, err
	}

	resp, err := http.Post(p.url+"/env/tools"+path+"?session_id="+p.session, "application/json", bytes.NewReader(raw))
	if err != nil {
		return r, err
	}
	defer resp.Body.Close()

	if err := json.NewDecoder(resp.Body).Decode(&r); err != nil {
		return r, err
	}

	if resp.StatusCode != http.StatusOK {
		return r, fmt.Errorf("%s: %s", path, resp.Status)
	}

	return r, nil
}

// bash runs a command as the step with a request id.
func (p player) bash(request, command string) (stepReply, error) {
	return p.post("/step", args{
		"request_id": request,
		"action":     args{"tool_name": "terminal", "arguments": args{"command": command}},
	})
}

func (p player) mustBash(t *testing.T, request, command string) string {
	t.Helper()

	r, err := p.bash(request, command)
	require.NoError(t, err)
	require.NotNil(t, r.Observation.Result, "%+v", r.Observation.Error)

	return r.Observation.Result.Data
}

// The whole process is killed with kill -9 between steps and during a step. The client repeats its last
// step with the same request id, and each side effect happens once. The files remain, and the verifier
// grades them.
func TestEpisodeKilled(t *testing.T) {
	t.Parallel()
	srv := startDev(t, devOptions{})
	p := player{srv.url, "durable"}
	begun, err := p.post("/reset", args{
		"instruction": "count",
		"verify":      []string{`test "$(cat log)" = "$(printf '0\n1\nbegin\nend')"`},
	})
	require.NoError(t, err)

	for i := range 2 {
		command := fmt.Sprintf("echo %d >> log; cat log", i)
		first := p.mustBash(t, fmt.Sprint("step-", i), command)

		srv.kill()
		srv = srv.restart(t)
		require.Equal(t, first, p.mustBash(t, fmt.Sprint("step-", i), command))
	}

	const slow = "echo begin >> log; until test -e go; do sleep 0.1; done; echo end >> log; cat log"

	lost := make(chan error, 1)

	go func() {
		_, err := p.bash("slow", slow)
		lost <- err
	}()

	n := 0

	require.Eventually(t, func() bool {
		n++
		r, err := p.bash(fmt.Sprint("look-", n), "grep -c begin log")

		return err == nil && r.Observation.Result != nil && !r.Observation.Result.IsError
	}, 4*time.Minute, 200*time.Millisecond)
	srv.kill()
	require.Error(t, <-lost)
	srv = srv.restart(t)
	p.mustBash(t, "go", "touch go")
	require.Equal(t, "0\n1\nbegin\nend", p.mustBash(t, "slow", slow))

	graded, err := p.post("/step", args{"action": args{"tool_name": "submit"}})
	require.NoError(t, err)
	require.True(t, graded.Done)
	require.NotNil(t, graded.Reward, "%+v", graded.Observation)
	require.InDelta(t, 1.0, *graded.Reward, 0)
	result := finalize(t, srv.url, begun.Observation.RolloutID)
	require.Len(t, result.Attempts, 1)
	require.Contains(t, result.AgentLogTail, "echo begin")
	require.Empty(t, srv.sandboxes(t))
}

// A worker that is stopped answers the calls of its episodes first.
func TestStopAnswersCallsOfEpisodes(t *testing.T) {
	t.Parallel()
	a := startFourProcesses(t, fourProcessesOptions{})
	p := player{a.url, "stopped"}
	_, err := p.post("/reset", args{})
	require.NoError(t, err)

	type answer struct {
		text string
		err  error
	}

	answered := make(chan answer, 1)

	go func() {
		r, err := p.bash("slow", "touch begun; sleep 2; echo done")
		if err == nil && r.Observation.Result != nil {
			answered <- answer{r.Observation.Result.Data, nil}
		} else {
			answered <- answer{err: fmt.Errorf("%+v: %w", r.Observation, err)}
		}
	}()

	n := 0

	require.Eventually(t, func() bool {
		n++
		r, err := p.bash(fmt.Sprint("look-", n), "test -e begun")

		return err == nil && r.Observation.Result != nil && !r.Observation.Result.IsError
	}, 4*time.Minute, 200*time.Millisecond)
	a.roles["worker"].stop(t)

	select {
	case got := <-answered:
		require.Equal(t, answer{text: "done"}, got)
	case <-time.After(30 * time.Second):
		require.Fail(t, "the worker has stopped, and the call has no answer")
	}

	// the episode goes on with the next worker, and leaves nothing
	a.start("worker")

	graded, err := p.post("/step", args{"action": args{"tool_name": "submit"}})
	require.NoError(t, err)
	require.True(t, graded.Done, "%+v", graded.Observation)
	require.Eventually(t, func() bool { return len(a.sandboxes(t)) == 0 }, time.Minute, 200*time.Millisecond)
}

// A second client attaches to an episode, and the first client then gets an error. The episode ends when
// the second client closes its session.
func TestEpisodeOfTwoClients(t *testing.T) {
	t.Parallel()
	srv := startDev(t, devOptions{})
	one, two := player{srv.url, "one"}, player{srv.url, "two"}
	_, err := one.post("/reset", args{"episode_id": "shared"})
	require.NoError(t, err)
	require.Equal(t, "1", one.mustBash(t, "1", "echo 1 | tee n.txt"))

	_, err = two.post("/reset", args{"episode_id": "shared", "attach": true})
	require.NoError(t, err)
	require.Equal(t, "1", two.mustBash(t, "2", "cat n.txt"))

	r, err := one.bash("3", "rm n.txt")
	require.NoError(t, err)
	require.NotNil(t, r.Observation.Error)
	require.Contains(t, r.Observation.Error.Message, "another client has joined the episode")
	require.Equal(t, "1", two.mustBash(t, "4", "cat n.txt"))
	body := fmt.Sprintf(
		`{"jsonrpc":"2.0","id":1,"method":"openenv/session/close","params":{"session_id":%q}}`,
		two.session,
	)
	require.Contains(
		t,
		post(t, srv.url+"/env/tools/mcp", http.Header{"Content-Type": {"application/json"}}, body),
		`"closed":true`,
	)
	require.Eventually(t, func() bool { return len(srv.sandboxes(t)) == 0 }, 4*time.Minute, 200*time.Millisecond)

	r, err = one.post("/step", args{"action": args{"tool_name": "submit", "arguments": args{}}})
	require.NoError(t, err)
	require.NotNil(t, r.Observation.Result, "%+v", r.Observation.Error)
	require.Equal(
		t,
		"The episode has ended (aborted: the client closed its session).",
		r.Observation.Result.Data,
		"a submission that came too late",
	)
}
