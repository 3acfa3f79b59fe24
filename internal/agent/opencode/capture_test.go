package opencode_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/agent"
	"github.com/rolloutd/rolloutd/internal/agent/agenttest"
	"github.com/rolloutd/rolloutd/internal/agent/opencode"
	"github.com/rolloutd/rolloutd/internal/agent/opencode/binary"
	"github.com/rolloutd/rolloutd/internal/driver/local"
	"github.com/rolloutd/rolloutd/internal/gateway/gatewayapi"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandbox"
	"github.com/rolloutd/rolloutd/internal/scripted"
	"github.com/rolloutd/rolloutd/internal/trace"
	"github.com/rolloutd/rolloutd/internal/trajectory"
)

// odd is text that changes if a proxy decodes and encodes it or splits it at the wrong byte.
const odd = "日本語 🙂👩‍👩‍👧 e\u0301 \u202ertl\u202c \u2028\u2029 \u0001\u007f <b>&amp;</b> \\n \\u0041 \"q\" ' ` \u00a0\ufeff end"

// session is a script with every case that makes a session hard to capture. It needs a context small enough
// that the long output fills it.
func session(t *testing.T) scripted.Scripts {
	t.Helper()

	two := 2
	bash := func(command string) []scripted.ToolCall {
		return []scripted.ToolCall{{Name: "bash", Arguments: map[string]any{"command": command, "description": "Runs"}}}
	}
	scripts := scripted.Scripts{
		{Name: "sub", Match: "count the files", Turns: []scripted.Turn{
			{ToolCalls: bash("ls | wc -l"), Faults: []scripted.Fault{{Times: 1, CutAfter: &two}}},
			{Reasoning: "few", Text: "There is one file."},
		}},
		{Name: "after the summary", Match: "Continue if you have next steps", Turns: []scripted.Turn{
			{Text: "All is done. " + odd},
		}},
		{Name: "main", Turns: []scripted.Turn{
			{
				Reasoning: "I think: " + odd, Text: odd,
				ToolCalls: []scripted.ToolCall{{
					Name:      "write",
					Arguments: map[string]any{"filePath": rollout.Workdir + "/odd.txt", "content": odd},
				}},
				Faults: []scripted.Fault{{Times: 1, Status: 503}, {Times: 1, Status: 429, RetryAfter: time.Second}},
			},
			{
				ToolCalls: append(bash("cat odd.txt"), bash("echo two at once")...),
				Faults:    []scripted.Fault{{Times: 2, CutAfter: &two}, {Times: 1, NoFinish: true}},
			},
			{
				ToolCalls: []scripted.ToolCall{{
					Name:      "bash",
					Arguments: "{\"command\": \"echo spa\\u0063ed\",\n \"description\":\t\"Runs\"}",
				}},
				Faults: []scripted.Fault{{Times: 1, ErrorAfter: &two}},
			},
			{ToolCalls: []scripted.ToolCall{{Name: "bash", Arguments: `{"command": "broken`}}},
			{ToolCalls: []scripted.ToolCall{{
				Name: "task",
				Arguments: map[string]any{
					"description":   "Counts",
					"prompt":        "count the files",
					"subagent_type": "general",
				},
			}}},
			{ToolCalls: bash("seq 1 4000")},
			{ToolCalls: bash("echo on")},
			{Text: "All is done. " + odd},
		}},
	}
	require.NoError(t, scripts.Validate())

	return scripts
}

// captured is a real OpenCode in a real sandbox behind a real gateway, which runs in its own process.
type captured struct {
	*sandbox.Sandbox

	// holds the data of gateway and sandboxes
	dir     string
	model   *recorder
	gateway *gatewayAt
}

func newCaptured(t *testing.T) *captured {
	t.Helper()
	return newCapturedWith(t, session(t), false)
}

// newCapturedWith is newCaptured with a model that plays the scripts. If sessions is true, the gateway waits for the
// registration of sessions.
func newCapturedWith(t *testing.T, scripts scripted.Scripts, sessions bool) *captured {
	t.Helper()

	if testing.Short() {
		t.Skip("needs the real OpenCode, a download of 60 MB")
	}

	dir, agents := t.TempDir(), agentsDir(t)
	_, err := binary.New(binary.Options{AgentsDir: agents}).Fetch(t.Context())
	require.NoError(t, err)
	d, err := local.New(local.Options{
		Dir:          filepath.Join(dir, "sandboxes"),
		AgentsDir:    agents,
		SandboxdPath: sandboxdPath,
	})
	require.NoError(t, err)
	backend, id := sandbox.New(d, sandbox.Options{}), t.Name()+".1"
	c := &captured{dir: dir, model: newRecorder(scripts), gateway: startGateway(t, dir)}
	t.Cleanup(func() { c.gateway.kill() })

	upstream := httptest.NewServer(c.model)

	t.Cleanup(func() {
		upstream.CloseClientConnections()
		upstream.Close()
	})
	c.Sandbox, err = backend.Create(t.Context(), id, rollout.Sandbox{}, nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, backend.Destroy(context.WithoutCancel(t.Context()), id)) })
	require.NoError(t, c.gateway.Open(t.Context(), gatewayapi.Route{
		ID: id, RolloutID: t.Name(), Attempt: 1, SandboxID: id, Capture: true,
		Origin: agent.Processes, Sessions: sessions,
		Model: rollout.Model{
			BaseURL:     upstream.URL + "/v1",
			Name:        "scripted",
			Logprobs:    true,
			TopLogprobs: 2,
			TokenIDs:    true,
		},
		Limits: rollout.Limits{Call: time.Minute},
	}))

	return c
}

// launch runs OpenCode with the features that rollouts disable: titles, subagents and compaction.
func (c *captured) launch(t *testing.T, agents string) {
	t.Helper()

	a, job := opencode.New(
		opencode.Options{Binary: binary.New(binary.Options{AgentsDir: agents})},
	), agent.Job{
		MaxOutput: 1000,
	}
	_, err := a.Install(t.Context(), agent.Env{Sandbox: c.Sandbox})
	require.NoError(t, err)
	p, err := a.Process(
		t.Context(),
		agent.Env{Sandbox: c.Sandbox},
		job,
		"run",
		"--format",
		"json",
		"--auto",
		"--thinking",
	)
	require.NoError(t, err)
	p.Env["OPENCODE_CONFIG_CONTENT"] = everything(t, p.Env["OPENCODE_CONFIG_CONTENT"])
	p.Stdin = []byte("do all of it: " + odd)
	_, err = c.Start(t.Context(), "agent-1", p)
	require.NoError(t, err)
}

func everything(t *testing.T, config string) string {
	t.Helper()

	var c map[string]any
	require.NoError(t, json.Unmarshal([]byte(config), &c))
	delete(c, "agent")
	c["permission"] = map[string]string{"*": "allow", "question": "deny"}
	c["compaction"] = map[string]bool{"auto": true, "prune": false}
	model := c["provider"].(map[string]any)["rollout"].(map[string]any)["models"].(map[string]any)["m"].(map[string]any)
	model["limit"] = map[string]int{"context": contextSize, "output": 1000}
	out, err := json.Marshal(c)
	require.NoError(t, err)

	return string(out)
}

// contextSize is in tokens as counted by the scripted model. The long output exceeds it.
const contextSize = 14000

func (c *captured) finish(t *testing.T) string {
	t.Helper()
	st, err := c.Wait(t.Context(), "agent-1", agenttest.Patience)
	require.NoError(t, err)
	out, err := c.Tail(t.Context(), st, "stdout", 1<<20)
	require.NoError(t, err)
	said, err := c.Tail(t.Context(), st, "stderr", 4000)
	require.NoError(t, err)
	require.False(t, st.Running, "%s", said)
	require.Zero(t, st.ExitCode, "%s\n%s", said, out)

	return string(out)
}

func (c *captured) turns(t *testing.T) []rollout.Turn {
	t.Helper()
	body, err := c.gateway.Trace(t.Context(), c.ID())
	require.NoError(t, err)

	defer func() { _ = body.Close() }()

	var turns []rollout.Turn

	for d := json.NewDecoder(body); ; {
		var turn rollout.Turn

		err := d.Decode(&turn)
		if errors.Is(err, io.EOF) {
			return turns
		}

		require.NoError(t, err)

		turns = append(turns, turn)
	}
}

// records reads the trace from disk. The gateway must not be running.
func (c *captured) records(t *testing.T) []*trace.Record {
	t.Helper()

	var journal struct{ Trace string }

	raw, err := os.ReadFile(filepath.Join(c.dir, "gateway", c.ID(), "route.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(raw, &journal))

	store, err := trace.Open(filepath.Join(c.dir, "gateway", ".trace"), trace.Options{})

	require.NoError(t, err)
	defer func() { require.NoError(t, store.Close()) }()

	require.Zero(t, store.Damaged())
	log := store.Log(journal.Trace)

	var all []*trace.Record

	for _, e := range log.Entries() {
		r, err := log.Read(e)
		require.NoError(t, err)

		all = append(all, r)
	}

	return all
}

// check compares every record byte for byte with what the model received and sent, and compares the model's
// log with the records, so that no call is missing or duplicated. After the gateway was killed, the model's
// log may also have calls that the trace does not have, because the gateway repeated them.
func (c *captured) check(t *testing.T, killed bool) {
	t.Helper()
	turns := c.turns(t)
	c.gateway.kill()
	records, seen := c.records(t), c.model.exchanges()
	require.Len(t, turns, len(records))

	var flaws []string

	for i, r := range records {
		require.Empty(t, r.Broken)
		require.True(t, turns[i].Delivered)

		flaws = append(flaws, r.Flaws...)

		var replies []string

		for _, e := range seen {
			if bytes.Equal(e.request, r.Request) {
				replies = append(replies, string(e.reply))
			}
		}

		require.Contains(t, replies, string(r.Reply), "turn %d", r.Turn)

		if !killed {
			require.Len(t, replies, r.Tries, "turn %d", r.Turn)
			require.Equal(t, replies[len(replies)-1], string(r.Reply), "turn %d", r.Turn)
		}
	}

	// the model writes one call whose arguments are no JSON
	require.Len(t, flaws, 1)
	require.Contains(t, flaws[0], "call_cut: ")

	var captured, sent []scripted.Sent

	for _, turn := range turns {
		_, session, _ := strings.Cut(turn.Lineage, "/")
		captured = append(captured, scripted.Sent{
			Session:            cmp.Or(session, turn.Lineage),
			FinishReason:       turn.FinishReason,
			PromptTokenIDs:     turn.PromptTokenIDs,
			CompletionTokens:   turn.CompletionTokens,
			CompletionTokenIDs: turn.CompletionTokenIDs,
			Logprobs:           turn.PerTokenLogps,
		})
	}

	for _, s := range c.model.sent(t) {
		sent = append(sent, scripted.Sent{
			Session: s.Session, FinishReason: s.FinishReason, PromptTokenIDs: s.PromptTokenIDs,
			CompletionTokens: s.CompletionTokens, CompletionTokenIDs: s.CompletionTokenIDs, Logprobs: s.Logprobs,
		})
	}

	if killed {
		require.Subset(t, sent, captured)
	} else {
		require.ElementsMatch(t, sent, captured)
	}
}

// checkKinds checks that every call of the script is recorded once, in order, with its kind.
func checkKinds(t *testing.T, turns []rollout.Turn) {
	t.Helper()

	kinds, calls := map[rollout.TurnKind]int{}, map[string]bool{}

	var root string

	for _, turn := range turns {
		kinds[turn.Kind]++
		if turn.Kind == rollout.KindAgent {
			root = cmp.Or(root, turn.Lineage)
		}

		calls[turn.CallID] = true
	}

	require.Equal(t, map[rollout.TurnKind]int{
		rollout.KindTitle:    1,
		rollout.KindAgent:    9,
		rollout.KindSubagent: 2,
		rollout.KindSummary:  2,
	}, kinds)
	require.Len(t, calls, len(turns))

	for i, turn := range turns {
		require.Equal(t, turn.Kind == rollout.KindAgent, turn.Train)

		if turn.Kind == rollout.KindSubagent {
			require.True(t, strings.HasPrefix(turn.Lineage, root+"/"))

			started := func(before rollout.Turn) bool { return trajectory.Delegates(turn.Request, &before) }
			require.True(t, slices.ContainsFunc(turns[:i], started))
		} else {
			require.Equal(t, root, turn.Lineage)
		}
	}
}

// agentTurns counts the agent's own turns up to the turn numbered upTo.
func agentTurns(turns []rollout.Turn, upTo int) int {
	n := 0

	for _, turn := range turns {
		if turn.Kind == rollout.KindAgent && turn.Turn <= upTo {
			n++
		}
	}

	return n
}

// The trace has a complete session of the real agent, byte for byte as the model received and sent it.
func TestWholeSessionIsCaptured(t *testing.T) {
	t.Parallel()
	c := newCaptured(t)
	c.launch(t, agentsDir(t))
	out := c.finish(t)
	turns := c.turns(t)
	checkKinds(t, turns)
	// by number of the agent's own turns
	var breaks []int

	for _, turn := range turns {
		if turn.PrefixBreak != nil {
			breaks = append(breaks, agentTurns(turns, turn.Turn))
		}
	}

	require.Equal(
		t,
		[]int{4, 5, 8, 9},
		breaks,
		"arguments spelt oddly, arguments that are no JSON, and each of two summaries",
	)
	c.check(t, false)

	for _, said := range []string{odd, "I think: " + odd, "All is done. " + odd} {
		text, err := json.Marshal(said)
		require.NoError(t, err)
		require.Contains(t, plain(t, out), plain(t, string(text)), "the agent received it whole")
	}
}

// plain normalizes the JSON escapes in which two encoders differ.
func plain(t *testing.T, text string) string {
	t.Helper()

	var all strings.Builder

	enc := json.NewEncoder(&all)

	for d := json.NewDecoder(strings.NewReader(text)); d.More(); {
		var v any
		require.NoError(t, d.Decode(&v))
		require.NoError(t, enc.Encode(v))
	}

	return strings.Trim(all.String(), "\"\n")
}

// The gateway is killed several times while the agent works. The agent completes its work, and the trace
// has every call once.
func TestWholeSessionIsCapturedThoughTheGatewayDies(t *testing.T) {
	t.Parallel()
	c := newCaptured(t)
	c.launch(t, agentsDir(t))

	for _, calls := range []int{2, 5, 9, 12, 16} {
		require.Eventually(t, func() bool { return len(c.model.exchanges()) >= calls }, 5*time.Minute, time.Millisecond)
		c.gateway.kill()
		c.gateway = startGateway(t, c.dir)
	}

	c.finish(t)
	checkKinds(t, c.turns(t))
	c.check(t, true)
}
