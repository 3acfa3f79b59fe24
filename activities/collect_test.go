package activities_test

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/activities"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/grading"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
	"github.com/rolloutd/rolloutd/internal/store"
)

// traceOf is a trace of one complete turn, one title call and one broken turn.
const traceOf = `{"turn":1,"kind":"agent","finish_reason":"stop","completion_token_ids":[1,2],"per_token_logps":[-0.1,-0.2],"usage":{"prompt_tokens":10,"cached_prompt_tokens":4,"completion_tokens":2,"cost_usd":0.25},"upstream_status":200,"request":{"model":"m","tools":[]}}
{"turn":2,"kind":"title","usage":{"prompt_tokens":5,"completion_tokens":1},"upstream_status":200}
{"turn":3,"kind":"agent","broken":"aborted","usage":{"prompt_tokens":99,"completion_tokens":9,"cost_usd":0.5}}
`

func collectInput(change func(*activities.CollectInput)) activities.CollectInput {
	reward := 0.5
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

	in := activities.CollectInput{
		Target: target(), Agent: "opencode", Proxied: true, Final: true,
		Head: activities.Head{
			TaskID:     "t",
			GroupID:    "g",
			Mode:       rollout.TransparentProxy,
			Outcome:    rollout.Completed,
			Reward:     &reward,
			SessionID:  "ses",
			InstallLog: "coder 1",
			StartedAt:  start,
			EndedAt:    start.Add(1500 * time.Millisecond),
			Attempts: []rollout.Attempt{{
				Number:    1,
				SandboxID: "r.1",
				Host:      "h1",
				Outcome:   rollout.Completed,
				StartedAt: start,
				EndedAt:   start,
			}},
		},
	}
	if change != nil {
		change(&in)
	}

	return in
}

func (h *host) result(t *testing.T) rollout.Result {
	t.Helper()
	data, err := h.store.Bytes(t.Context(), store.ResultKey("r"), 1<<20)
	require.NoError(t, err)

	var res rollout.Result
	require.NoError(t, json.Unmarshal(data, &res))

	return res
}

// All artifacts of a complete attempt are in the store, and the result has the current and the legacy fields.
func TestCollect(t *testing.T) {
	t.Parallel()
	h := working(t, 1)
	b := h.sandbox(t)
	h.gate.trace = traceOf
	h.provider.exec = func(_ *fakeSandbox, name string, _ wire.Process) exec {
		switch name {
		case "setup-1":
			return exec{stdout: "ready"}
		case "verify-script":
			return exec{exit: 4, stdout: "half right", stderr: "half wrong", effect: rewards("0.5").effect}
		case "agent-1":
			return exec{hang: true, stderr: "opencode's own log"}
		}

		return exec{}
	}
	require.NoError(t, h.RunSetup(t.Context(), activities.SetupInput{
		Target:   target(),
		Commands: []string{"prepare"},
		Timeout:  time.Minute,
	}))
	_, err := h.RunAgent(t.Context(), agentInput())
	require.NoError(t, err)
	b.locked(func() { b.files["/home/user/workdir/hello.py"] = "print('hi')" })

	_, err = h.RunVerifier(t.Context(), verifyInput(rollout.Verifier{Script: "x", Commands: []string{"check"}}))
	require.NoError(t, err)

	out, err := h.CollectArtifacts(t.Context(), collectInput(nil))
	require.NoError(t, err)
	require.Equal(t, store.ResultKey("r"), out.Result.Key)

	var head rollout.Result
	require.NoError(t, h.store.JSON(t.Context(), store.HeadKey("r"), &head))
	require.Equal(t, "r", head.ID)
	require.Empty(t, head.ProxyTurns)
	require.Equal(t, rollout.Usage{
		Turns:              1,
		PromptTokens:       15,
		CachedPromptTokens: 4,
		CompletionTokens:   3,
		CostUSD:            0.75,
	}, out.Usage, "what broke cost something, too")

	require.Equal(t, traceOf, h.stored(t, store.Trace))
	require.Equal(t, "log of ses\n", h.stored(t, store.AgentEvents))
	require.Equal(t, "opencode's own log", h.stored(t, store.OpencodeOutput))
	data, err := h.store.Bytes(t.Context(), store.ResultKey("r"), 1<<20)
	require.NoError(t, err)
	golden(t, "testdata/result.json", data)
}

// An agent on the host has no process output, so the sandbox is not asked for it. The agent's log contains its events.
func TestNoOutputOfAnAgentOnTheHost(t *testing.T) {
	t.Parallel()
	h := working(t, 1)
	h.gate.trace = traceOf
	_, err := h.CreateSandbox(t.Context(), activities.CreateSandboxInput{Target: target(), Agent: rollout.AgentReact})
	require.NoError(t, err)

	in := agentInput()
	in.Agent = rollout.AgentReact
	_, err = h.RunAgent(t.Context(), in)
	require.NoError(t, err)
	_, err = h.CollectArtifacts(
		t.Context(),
		collectInput(func(in *activities.CollectInput) { in.Agent = rollout.AgentReact }),
	)
	require.NoError(t, err)
	require.Contains(t, h.result(t).Links, "agent")
	require.NotContains(t, h.result(t).Links, "output")
}

// golden compares JSON with a file and ignores the durations of processes.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()

	var v map[string]any
	require.NoError(t, json.Unmarshal(got, &v))

	for _, list := range []string{"setup_results", "verify_results"} {
		for _, res := range v[list].([]any) {
			require.Contains(t, res, "duration_s")
			delete(res.(map[string]any), "duration_s")
		}
	}

	pretty, err := json.MarshalIndent(v, "", "  ")
	require.NoError(t, err)

	if *update {
		require.NoError(t, os.WriteFile(name, append(pretty, '\n'), 0o644))
	}

	want, err := os.ReadFile(name)
	require.NoError(t, err)
	require.JSONEq(t, string(want), string(pretty))
}

// In the result of a rollout that never got a host, lists and maps are empty instead of null, so that
// clients can iterate over them.
func TestComposeWithoutHostHasEmptyLists(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	_, err := h.ComposeResult(t.Context(), activities.CollectInput{
		Target: target(),
		Final:  true,
		Head:   activities.Head{Outcome: rollout.InfraFailed, Error: "no host", ExitCode: -1},
	})
	require.NoError(t, err)
	data, err := h.store.Bytes(t.Context(), store.ResultKey("r"), 1<<20)
	require.NoError(t, err)

	for _, field := range []string{"proxy_turns", "setup_results", "verify_results", "files_extra", "attempts"} {
		require.Contains(t, string(data), `"`+field+`":[]`)
	}

	for _, field := range []string{"files", "workdir_files", "links"} {
		require.Contains(t, string(data), `"`+field+`":{}`)
	}

	require.Contains(t, string(data), `"agent_exit_code":null`, "the agent never ran")
	res := h.result(t)
	require.Nil(t, res.Reward)
	require.Equal(t, "no host", *res.Error)
	require.Equal(t, -1, res.ExitCode)
}

// The artifacts of an attempt that is followed by another one are kept, but they are not the rollout's result.
func TestCollectOfALostAttempt(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.gate.trace = traceOf
	_, err := h.CollectArtifacts(t.Context(), collectInput(func(in *activities.CollectInput) {
		in.Final, in.Head.Outcome, in.Head.Reward = false, rollout.InfraFailed, nil
	}))
	require.NoError(t, err, "its sandbox is gone, and that is no reason to lose the trace")
	require.Equal(t, traceOf, h.stored(t, store.Trace))
	require.Equal(t, []string{"the attempt is over"}, h.gate.ends, "or a call under way would be missing in it")
	there, err := h.store.Exists(t.Context(), store.ResultKey("r"))
	require.NoError(t, err)
	require.False(t, there)
}

// The agent's transcript takes no turn out of the training data: it lies in the sandbox, where a policy edits it or
// kills what has it.
func TestTranscriptsTakeNoTurnOutOfTheData(t *testing.T) {
	t.Parallel()

	for name, transcript := range map[string]string{
		"edited":     `{"messages":[{"info":{"role":"assistant"},"parts":[{"type":"text","text":"another reply"}]}]}`,
		"unreadable": `{"messages":`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHost(t)
			h.gate.trace = `{"turn":1,"kind":"agent","train":true,"response":{"choices":[{"message":{"content":"its reply"}}]}}` + "\n"
			_, err := h.store.PutBytes(t.Context(), store.AttemptKey("r", 1, store.Transcript), []byte(transcript))
			require.NoError(t, err)
			_, err = h.CollectArtifacts(t.Context(), collectInput(nil))
			require.NoError(t, err)
			require.Equal(t, h.gate.trace, h.stored(t, store.Trace))
		})
	}
}

// Without a trace there is no reward, because a trainer could not train on it. A rollout that records no
// trace needs none.
func TestTraceMissing(t *testing.T) {
	t.Parallel()

	for name, c := range map[string]struct {
		change func(*activities.CollectInput)
		want   fault.Kind
	}{
		"of a reward":        {nil, fault.NotFound},
		"of a failed setup":  {func(in *activities.CollectInput) { in.Head.Outcome = rollout.SetupFailed }, ""},
		"of a black box":     {func(in *activities.CollectInput) { in.Head.Mode = rollout.BlackBox }, ""},
		"without any route":  {func(in *activities.CollectInput) { in.Proxied = false }, ""},
		"gateway is away":    {func(in *activities.CollectInput) { in.RolloutID = "away" }, fault.Unavailable},
		"trace breaks off":   {func(in *activities.CollectInput) { in.RolloutID = "cut" }, fault.Unavailable},
		"trace is malformed": {func(in *activities.CollectInput) { in.RolloutID = "bad" }, fault.Internal},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHost(t)
			in := collectInput(c.change)
			h.gate.traces = fault.New(fault.NotFound, "no such route")

			switch in.RolloutID {
			case "away":
				h.gate.traces = fault.New(fault.Unavailable, "connection refused")
			case "cut":
				h.gate.traces, h.gate.reader = nil, io.MultiReader(strings.NewReader(traceOf), broken{})
			case "bad":
				h.gate.traces, h.gate.trace = nil, "{"
			}

			_, err := h.CollectArtifacts(t.Context(), in)
			require.Equal(t, c.want, fault.KindOf(err))
		})
	}
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errors.New("connection reset") }

// Files are returned as text, truncated and limited in number. An agent's files cannot make a result large
// or lead out of the workdir.
func TestFilesOfTheWorkdir(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	b := h.sandbox(t)
	b.locked(func() {
		b.files["/home/user/workdir/long.txt"] = strings.Repeat("é", 9000)
		b.files["/home/user/workdir/binary"] = "a\x00b"
		b.files["/home/user/workdir/latin1"] = "caf\xe9"
		b.files["/home/user/workdir/.git/config"] = "machinery"

		b.files["/home/user/.bashrc"] = "not of the workdir"
		for i := range 100 {
			b.files["/home/user/workdir/many/"+strings.Repeat("x", i+1)] = "x"
		}
	})

	_, err := h.CollectArtifacts(t.Context(), collectInput(nil))
	require.NoError(t, err)
	res := h.result(t)
	require.Len(t, res.Files, 64)
	require.Equal(t, res.Files, res.WorkdirFiles)
	require.Equal(t, strings.Repeat("é", 8000), res.Files["/home/user/workdir/long.txt"])
	require.Len(t, res.FilesExtra, 103-64)
	require.Contains(t, res.FilesExtra, "/home/user/workdir/binary")
	require.Contains(t, res.FilesExtra, "/home/user/workdir/latin1")
	require.NotContains(t, res.FilesExtra, "/home/user/workdir/.git/config")
}

func TestLogTails(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	lines := strings.Repeat("short\n", 30) + strings.Repeat(strings.Repeat("y", 149)+"\n", 19)
	_, err := h.store.PutBytes(t.Context(), store.AttemptKey("r", 1, store.AgentEvents), []byte(lines))
	require.NoError(t, err)
	_, err = h.ComposeResult(t.Context(), collectInput(nil))
	require.NoError(t, err)
	require.Len(t, h.result(t).AgentLogTail, 2000, "20 lines, cut to 2,000 characters")

	_, err = h.store.PutBytes(
		t.Context(),
		store.AttemptKey("r", 1, store.AgentEvents),
		[]byte(strings.Repeat("short\n", 30)),
	)
	require.NoError(t, err)
	_, err = h.ComposeResult(t.Context(), collectInput(nil))
	require.NoError(t, err)
	require.Equal(t, 20, strings.Count(h.result(t).AgentLogTail, "short"))
}

// Reading the log is bounded, so the size of an agent's output cannot prevent its rollout from ending.
func TestEventsOfAnySize(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	key := store.AttemptKey("r", 1, store.AgentEvents)
	_, err := h.store.PutBytes(t.Context(), key, nil)
	require.NoError(t, err)
	f, err := os.OpenFile(filepath.Join(h.dir, key), os.O_WRONLY, 0)
	require.NoError(t, err)

	defer f.Close()

	_, err = f.WriteAt([]byte("\nthe last one\n"), 1<<30)
	require.NoError(t, err)
	_, err = h.ComposeResult(t.Context(), collectInput(nil))
	require.NoError(t, err)
	require.True(t, strings.HasSuffix(h.result(t).AgentLogTail, "the last one"))
}

// The rows of routed experts and the images are stored beside the trace, behind those of the step before; without any
// there is no blob.
func TestTraceFilesAreCollected(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.gate.trace, h.gate.experts, h.gate.images = traceOf, "rows", "cat"
	_, err := h.CollectArtifacts(t.Context(), collectInput(nil))
	require.NoError(t, err)
	require.Equal(t, "rows", h.stored(t, store.RoutedExperts))
	require.Equal(t, "cat", h.stored(t, store.Images))
	require.Contains(t, h.result(t).Links, "routed_experts")
	require.Contains(t, h.result(t).Links, "images")

	second := collectInput(func(in *activities.CollectInput) { in.Attempt, in.From = 2, 1 })
	h.gate.trace, h.gate.experts, h.gate.images = "", "more", ""
	_, err = h.CollectArtifacts(t.Context(), second)
	require.NoError(t, err)
	joined, err := h.store.Bytes(t.Context(), store.AttemptKey("r", 2, store.RoutedExperts), 1<<10)
	require.NoError(t, err)
	require.Equal(t, "rowsmore", string(joined))

	joined, err = h.store.Bytes(t.Context(), store.AttemptKey("r", 2, store.Images), 1<<10)
	require.NoError(t, err)
	require.Equal(t, "cat", string(joined))

	other := newHost(t)
	other.gate.trace = traceOf
	_, err = other.CollectArtifacts(t.Context(), collectInput(nil))
	require.NoError(t, err)
	require.NotContains(t, other.result(t).Links, "routed_experts")
	require.NotContains(t, other.result(t).Links, "images")
}

// The rewards of turns that a verifier gave are in the result.
func TestTurnRewardsOfAVerifier(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.gate.trace = traceOf

	reward, turns := 0.5, []rollout.TurnReward{{Turn: 1, Name: "style", Reward: 1}}
	require.NoError(t, h.store.PutJSON(t.Context(), store.AttemptKey("r", 1, store.Grading), grading.Record{
		Reward: &reward, TurnRewards: turns, Grading: rollout.Grading{Status: rollout.Graded},
	}))

	_, err := h.CollectArtifacts(t.Context(), collectInput(nil))
	require.NoError(t, err)
	require.Equal(t, turns, h.result(t).TurnRewards)
}
