package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// oddReply is the first reply of an engine to an agent: the deltas of its chunks, and what the last chunk says.
type oddReply struct {
	name   string
	deltas []string

	// raw
	finish string

	// events after the last chunk
	tail string

	// no tokens, and no counts
	empty bool
}

// oddReplies are replies of real engines that differ from OpenAI's form, for turn n. Each calls a tool to write the
// lines "one" and "two" into a file of that turn.
func oddReplies(tool string, n int) []oddReply {
	args := func(command string) string {
		// strings always encode
		b, _ := json.Marshal(map[string]string{"command": command, "description": "Works"})
		return string(b)
	}
	text := func(s string) string {
		// a string always encodes
		b, _ := json.Marshal(s)
		return string(b)
	}
	call := func(members, arguments string) string {
		return `{"tool_calls":[{` + members + `"type":"function","function":{"name":"` + tool + `","arguments":` + arguments + `}}]}`
	}
	write := func(line string) string { return fmt.Sprintf("echo %s >> %d.txt", line, n) }
	one, two, both := args(write("one")), args(write("two")), args(write("one")+"; "+write("two"))
	half := len(both) / 2
	a, b := fmt.Sprintf(`"id":"a%d",`, n), fmt.Sprintf(`"id":"b%d",`, n)

	const calls = `"tool_calls"`

	return []oddReply{
		{
			name:   "a shared index",
			deltas: []string{call(`"index":0,`+a, text(one)), call(`"index":0,`+b, text(two))},
			finish: calls,
		},
		{name: "no index", deltas: []string{call(a, text(one)), call(b, text(two))}, finish: calls},
		{
			name:   "no ids",
			deltas: []string{call(`"index":0,`, text(one)), call(`"index":1,"id":null,`, text(two))},
			finish: calls,
		},
		{
			name:   "equal ids",
			deltas: []string{call(`"index":0,`+a, text(one)), call(`"index":1,`+a, text(two))},
			finish: calls,
		},
		{name: "neither", deltas: []string{call(``, one), call(``, two)}, finish: `"stop"`},
		{name: "a string as index", deltas: []string{call(`"index":"0",`+a, text(both))}, finish: calls},
		{name: "an object as arguments", deltas: []string{call(`"index":0,`+a, both)}, finish: calls},
		{
			name: "a repeated name",
			deltas: []string{
				call(`"index":0,`+a, text(both[:half])),
				call(`"index":0,`+a, text(both[half:])),
			},
			finish: calls,
		},
		{
			name: "a repeated call",
			deltas: []string{
				call(`"index":0,`+a, text(both[:half])),
				call(`"index":0,`+a, text(both[half:])),
				call(`"index":0,`+a, text(text(both))),
			},
			finish: calls,
		},
		{
			name:   "a function call",
			deltas: []string{`{"function_call":{"name":"` + tool + `","arguments":` + text(both) + `}}`},
			finish: `"function_call"`,
		},
		{
			name:   "an unknown finish reason",
			deltas: []string{call(`"index":0,`+a, text(both))},
			finish: `"some_new_reason"`,
		},
		{
			name:   "content of parts",
			deltas: []string{`{"content":[{"type":"text","text":"I work."}]}`, call(`"index":0,`+a, text(both))},
			finish: calls,
		},
		{
			name:   "counts without choices",
			deltas: []string{call(`"index":0,`+a, text(both))},
			finish: calls,
			tail:   "data: {\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":2}}\n\n",
		},
	}
}

// stream writes the reply, with the ids and the log probabilities of its two tokens.
func (o oddReply) stream() string {
	chunk := func(delta, members string) string {
		return `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":` + delta + members + "}\n\n"
	}
	if o.empty {
		return chunk(
			`{"role":"assistant"}`,
			`,"finish_reason":null}]`,
		) + chunk(
			`{}`,
			`,"finish_reason":`+o.finish+`}]`,
		) + "data: [DONE]\n\n"
	}

	token := func(id int) string {
		return fmt.Sprintf(`,"logprobs":{"content":[{"token":"t%d","logprob":-0.5}]},"token_ids":[%d]`, id, id)
	}

	out := chunk(`{"role":"assistant","content":""}`, token(10)+`,"finish_reason":null}],"prompt_token_ids":[1,2,3]`)
	for _, delta := range o.deltas {
		out += chunk(delta, `,"finish_reason":null}]`)
	}

	out += chunk(`{}`, token(11)+`,"finish_reason":`+o.finish+`}]`)

	return out + o.tail + `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2}}` + "\n\ndata: [DONE]\n\n"
}

// engineCall is what a call of an engine asks for.
type engineCall struct {
	Messages []struct{ Role string }
	Tools    []json.RawMessage
}

// byAgent reports whether an agent asks: a probe has one tool, a title none.
func (c engineCall) byAgent() bool { return len(c.Tools) > 1 }

// results counts the results of tools.
func (c engineCall) results() int { return c.count("tool") }

// replies counts the replies so far.
func (c engineCall) replies() int { return c.count("assistant") }

func (c engineCall) count(role string) (n int) {
	for _, m := range c.Messages {
		if m.Role == role {
			n++
		}
	}

	return n
}

// startEngine starts an engine whose chat completions are what answer writes.
func startEngine(t *testing.T, answer func(http.ResponseWriter, engineCall)) (url string) {
	t.Helper()

	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/chat/completions") {
			http.NotFound(w, r)
			return
		}

		var call engineCall
		if json.NewDecoder(r.Body).Decode(&call) != nil {
			http.Error(w, "bad request", http.StatusBadRequest)
			return
		}

		answer(w, call)
	}))

	t.Cleanup(func() { srv.CloseClientConnections(); srv.Close() })

	return srv.URL + "/v1"
}

// usualReply ends the work of an agent.
var usualReply = oddReply{deltas: []string{`{"content":"All done."}`}, finish: `"stop"`}

// startOddEngine starts an engine that replies to turn n of an agent, from 0 on, with odd(n). All other replies are
// usual.
func startOddEngine(t *testing.T, odd func(n int) oddReply) string {
	t.Helper()

	return startEngine(t, func(w http.ResponseWriter, call engineCall) {
		said := usualReply
		if call.byAgent() {
			said = odd(call.replies())
		}

		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, said.stream())
	})
}

// Replies of an engine in another form than OpenAI's cost a policy nothing: OpenCode and ReACT run their calls once
// each, the record has them as the agent got them, and the turns are trained on. A rollout of each agent gets one after
// the other.
func TestOddRepliesOfEngines(t *testing.T) {
	t.Parallel()
	srv := startDev(t, devOptions{})

	for agent, tool := range map[string]string{"opencode": "bash", "react": "terminal"} {
		t.Run(agent, func(t *testing.T) {
			t.Parallel()

			all := oddReplies(tool, 0)

			of := oddArgs(startOddEngine(t, func(n int) oddReply {
				if n < len(all) {
					return oddReplies(tool, n)[n]
				}

				return usualReply
			}))
			if of["agent"] = agent; agent == "react" {
				of["react"] = args{"tools": "native"}
			}

			var verify []string
			for n := range all {
				verify = append(verify, fmt.Sprintf(`test "$(sort %d.txt)" = "$(printf 'one\ntwo')"`, n))
			}

			of["verify"] = verify
			// a reply that the agent does not understand comes again
			of["limits"] = args{"call_s": 300, "attempts": 1, "turns": 2 * len(all)}
			requireOddRepliesUnderstood(t, all, runRollout(t, srv.url, of))
		})
	}
}

func oddArgs(url string) args {
	return args{
		"instruction": "work", "endpoint": "vllm", "base_url": url, "model": "m", "agent_timeout_s": 600,
		"verify": []string{"false"}, "limits": args{"call_s": 300, "attempts": 1},
	}
}

// requireOddRepliesUnderstood checks a rollout whose turns got all of these replies, and the usual one at the end.
func requireOddRepliesUnderstood(t *testing.T, all []oddReply, r rollout.Result) {
	t.Helper()
	require.Equal(t, rollout.Completed, r.Outcome, deref(r.Error))

	turns := slices.DeleteFunc(r.ProxyTurns, func(turn rollout.CompactTurn) bool { return turn.Kind != rollout.KindAgent })
	require.Len(t, turns, len(all)+1, "the calls and the last answer")

	for n, odd := range append(all, usualReply) {
		turn := turns[n]

		if n < len(all) {
			require.Zero(t, r.VerifyResults[n].ExitCode, "%s: %+v", odd.name, r.VerifyResults[n])
		}

		require.True(t, turn.Train, "%s: %v", odd.name, turn.Flaws)
		require.Len(t, turn.CompletionTokenIDs, 2, odd.name)
		raw, err := json.Marshal(turn.Response)
		require.NoError(t, err)
		require.NotContains(t, string(raw), "bashbash", odd.name)
		require.NotContains(t, string(raw), "terminalterminal", odd.name)
		require.Contains(t, []rollout.FinishReason{"tool_calls", "stop"}, turn.FinishReason, odd.name)
	}
}

// Replies that say nothing end a rollout soon: as the endpoint's failure, without a reward, if nothing was
// sampled, and as the policy's own if it sampled them. OpenCode gets those that an agent may take for calls.
func TestRepliesThatSayNothing(t *testing.T) {
	t.Parallel()
	srv := startDev(t, devOptions{env: []string{"ROLLOUTD_WORKER_CAPACITY=4"}})
	infra := func(r rollout.Result) {
		require.Equal(t, rollout.InfraFailed, r.Outcome, deref(r.Error))
		require.Contains(t, deref(r.Error), "the reply is empty")
		require.Equal(t, string(fault.UpstreamFailed), r.Attempts[0].ErrorKind)
		require.Nil(t, r.Reward)
	}
	policy := func(r rollout.Result) {
		require.Equal(t, rollout.Completed, r.Outcome, deref(r.Error))
		require.InDelta(t, 0, *r.Reward, 0)
	}

	cases := []struct {
		agent string
		odd   oddReply
		check func(rollout.Result)
		id    string
	}{
		{
			agent: rollout.AgentReact,
			odd:   oddReply{name: "stop", finish: `"stop"`, empty: true},
			check: infra,
		},
		{
			agent: rollout.AgentReact,
			odd:   oddReply{name: "the end of the turn at once", finish: `"stop"`},
			check: policy,
		},
		{
			agent: rollout.AgentOpencode,
			odd: oddReply{
				name:   "a text that is said to be a call",
				deltas: []string{`{"content":"Hello, how can I help?"}`},
				finish: `"tool_calls"`,
			},
			check: policy,
		},
		{
			agent: rollout.AgentOpencode,
			odd:   oddReply{name: "a call that is lost", finish: `"tool_calls"`},
			check: policy,
		},
		{
			agent: rollout.AgentOpencode,
			odd: oddReply{
				name:   "a text that ends for an unknown reason",
				deltas: []string{`{"content":"Hello, how can I help?"}`},
				finish: `"some_new_reason"`,
			},
			check: policy,
		},
	}
	for i, c := range cases {
		of := oddArgs(startOddEngine(t, func(int) oddReply { return c.odd }))
		if of["agent"] = c.agent; c.agent == rollout.AgentReact {
			of["react"] = args{"tools": "native"}
		}

		cases[i].id = start(t, srv.url, of)
	}

	for _, c := range cases {
		t.Run(c.odd.name, func(t *testing.T) {
			r := finalize(t, srv.url, c.id)
			c.check(r)
			require.Less(t, len(r.ProxyTurns), 5)
		})
	}
}
