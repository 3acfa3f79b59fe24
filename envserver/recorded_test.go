package envserver_test

import (
	"encoding/json"
	"hash/fnv"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

// agentCall is what a scripted agent of these tests says and does in one model call.
type agentCall struct {
	thinking, text string

	// a tool call: the tool, its arguments, its result
	tool, arguments, result string

	// two tokens of the next prompt were sampled as one
	retokenized bool
}

// maxShown bounds a tool's output in an event, as an agent's reporter does, and in the prompt's tokens. In bytes.
const maxShown = 16 << 10

var pieces = regexp.MustCompile(`<\|[a-z_]+\|>|\s?\w{1,6}|\s?[^\w\s]|\s+`)

// tokenize splits a text into tokens of a toy vocabulary.
func tokenize(text string) (ids []int32, texts []string) {
	for _, piece := range pieces.FindAllString(text, -1) {
		h := fnv.New32a()
		_, _ = h.Write([]byte(piece))
		ids, texts = append(ids, int32(h.Sum32()%150_000)), append(texts, piece)
	}

	return ids, texts
}

// recorded returns the trace of a session as JSON lines, and the events that its agent reported.
func recorded(t *testing.T, instruction string, session []agentCall) (lines string, events []rollout.Event) {
	t.Helper()

	at := time.Unix(1_700_000_000, 500_000_000)
	messages := []any{
		map[string]string{"role": "system", "content": "You are a careful engineer. You work in /code and have a shell.\n\n# Rules\n- Read before you change.\n- Keep changes small.\n"},
		map[string]string{"role": "user", "content": instruction},
	}
	prompt, _ := tokenize("<|im_start|>system You are a careful engineer.<|im_end|> <|im_start|>user " + instruction + "<|im_end|> <|im_start|>assistant ")

	event := func(kind rollout.EventKind, data any) {
		raw, err := json.Marshal(data)
		require.NoError(t, err)

		events = append(events, rollout.Event{Kind: kind, Data: raw})
	}

	var out strings.Builder

	for i, s := range session {
		call := "call_" + string(rune('a'+i))
		reply := map[string]any{"role": "assistant", "content": s.text}
		says := s.text

		if s.thinking != "" {
			reply["reasoning_content"] = s.thinking
			says = "<think> " + s.thinking + " </think> " + says
		}

		if s.tool != "" {
			reply["tool_calls"] = []any{map[string]any{"id": call, "type": "function", "function": map[string]string{"name": s.tool, "arguments": s.arguments}}}
			says += ` <tool_call>{"name": "` + s.tool + `", "arguments": ` + s.arguments + `}</tool_call>`
		}

		ids, texts := tokenize(says + "<|im_end|>")
		rendered := ids

		if k := slices.Index(texts, " skippe"); s.retokenized && k >= 0 {
			ids = slices.Concat(ids[:k], []int32{ids[k] + 1}, ids[k+2:])
			texts = slices.Concat(texts[:k], []string{texts[k] + texts[k+1]}, texts[k+2:])
		}

		logprobs, likely := make([]float64, len(ids)), make([]any, len(ids))

		for j, id := range ids {
			logprobs[j] = -float64(id%97) * float64(id%89) * float64(id%83) / 200_000
			likely[j] = map[string]any{"token": texts[j], "logprob": logprobs[j], "top_logprobs": []map[string]any{
				{"token": texts[j], "logprob": logprobs[j]}, {"token": " other", "logprob": logprobs[j]/2 - 0.7}, {"token": "\n", "logprob": logprobs[j] - 3},
			}}
		}

		finish := "tool_calls"
		if s.tool == "" {
			finish = "stop"
		}

		request, err := json.Marshal(map[string]any{"model": "qwen3-4b", "temperature": 1, "messages": messages})
		require.NoError(t, err)
		response, err := json.Marshal(map[string]any{"choices": []any{map[string]any{"message": reply, "finish_reason": finish, "logprobs": map[string]any{"content": likely}}}})
		require.NoError(t, err)

		version := "step-41"
		if i > 2 {
			version = "step-42"
		}

		line, err := json.Marshal(rollout.Turn{
			Turn: i + 1, CallID: call, Kind: rollout.KindAgent, Lineage: "ses_1", Branch: rollout.BranchRoot,
			Delivered: true, Train: true, FinishReason: finish, PromptTokenIDs: prompt, CompletionTokenIDs: ids,
			CompletionTokens: texts, PerTokenLogps: logprobs, ModelVersion: version, UpstreamStatus: 200, UpstreamTries: 1,
			Usage:      rollout.Usage{PromptTokens: int64(len(prompt)), CompletionTokens: int64(len(ids)), CachedPromptTokens: int64(len(prompt)) / 2},
			Timestamp:  float64(at.UnixMilli()) / 1000,
			FirstByteS: 0.31, LatencyS: 1.2 + 0.4*float64(i), QueuedS: 0.05, Request: request, Response: response,
		})
		require.NoError(t, err)
		out.Write(append(line, '\n'))

		at = at.Add(time.Duration(1200+400*i) * time.Millisecond)
		stamp := rollout.Stamp{Attempt: 1, At: at}
		event(rollout.EventTurn, rollout.TurnEvent{Stamp: stamp, Turn: i + 1, TurnKind: rollout.KindAgent, CompletionTokens: int64(len(ids)), LatencyS: 1.2})

		if s.thinking != "" {
			event(rollout.EventThinking, rollout.TextEvent{Stamp: stamp, Text: s.thinking})
		}

		if s.text != "" {
			event(rollout.EventText, rollout.TextEvent{Stamp: stamp, Text: s.text})
		}

		if s.tool == "" {
			continue
		}

		input := json.RawMessage(s.arguments)
		if !json.Valid(input) {
			input = json.RawMessage("{}")
		}

		event(rollout.EventToolStart, rollout.ToolEvent{Stamp: stamp, CallID: call, Tool: s.tool, Input: input})

		at = at.Add(time.Duration(300+900*(i%2)) * time.Millisecond)

		ended := rollout.ToolEvent{Stamp: rollout.Stamp{Attempt: 1, At: at}, CallID: call, Tool: s.tool, Output: s.result, Status: "completed"}
		if len(s.result) > maxShown {
			ended.Output, ended.Bytes = s.result[:maxShown], len(s.result)
		}

		event(rollout.EventToolEnd, ended)

		messages = append(messages, reply, map[string]string{"role": "tool", "tool_call_id": call, "content": s.result})

		after, _ := tokenize(" <|im_start|>tool " + s.result[:min(len(s.result), maxShown)] + "<|im_end|> <|im_start|>assistant ")
		prompt = append(append(append([]int32{}, prompt...), rendered...), after...)
	}

	return out.String(), events
}

// record makes every rollout of the rig one of an agent with a session, whose second verifier command fails.
func (r *rig) record(session []agentCall) {
	r.t.Helper()

	r.fake.lines, r.fake.log = recorded(
		r.t,
		"The CSV parser in /code/parser.py drops empty fields. Mend it, so that tests/test_parser.py passes.",
		session,
	)

	begun := time.Unix(1_700_000_000, 500_000_000)
	at := func(s int) time.Time { return begun.Add(time.Duration(s) * time.Second) }
	r.fake.phases = []rollout.PhaseTiming{
		{Phase: rollout.PhaseQueued, Attempt: 1, Start: at(-6), End: new(at(-4))},
		{Phase: rollout.PhaseCreating, Attempt: 1, Start: at(-4), End: new(at(-1))},
		{Phase: rollout.PhaseSetup, Attempt: 1, Start: at(-1), End: new(begun)},
		{Phase: rollout.PhaseAgent, Attempt: 1, Start: begun, End: new(at(18))},
		{Phase: rollout.PhaseVerifying, Attempt: 1, Start: at(18), End: new(at(21))},
		{Phase: rollout.PhaseCollecting, Attempt: 1, Start: at(21), End: new(at(22))},
	}
	r.fake.edit = func(res *rollout.Result) {
		res.Grading = rollout.Grading{Status: rollout.Graded}
		res.TurnRewards = []rollout.TurnReward{{Turn: 2, Reward: 0.25}, {Turn: 2, Name: "style <b>", Reward: -1}}
		res.Usage = rollout.Usage{
			Turns: len(session), PromptTokens: 3349, CachedPromptTokens: 1672, CompletionTokens: 516, CostUSD: 0.0031,
		}

		for i := range res.VerifyResults {
			c := &res.VerifyResults[i]
			c.DurationS, c.Stdout, c.Stderr = 0.8, "....                       [100%]\n4 passed in 0.04s\n", ""

			if c.ExitCode != 0 {
				c.Stdout = "....F                      [100%]\nE   AssertionError: split('') must be []\n1 failed, 4 passed in 0.05s\n"
				c.Stderr = "warning: the cache is not writable\n"
			}
		}
	}
}

// session of an agent that mends a bug: it looks, thinks, edits, and leaves a test failing.
func mendingSession() []agentCall {
	return []agentCall{
		{
			thinking:  "The test names a file parser.py, and nothing is skipped there. I should look at the tests before I change anything.",
			text:      "I'll look at the failing test first.",
			tool:      "bash",
			arguments: `{"command":"cd /code && python -m pytest -q tests/test_parser.py 2>&1 | tail -20","description":"Run the parser's tests"}`,
			result:    "..F.                                                      [100%]\n=================== FAILURES ===================\n    def test_empty_quotes():\n>       assert split('a,\"\",b') == ['a', '', 'b']\nE       AssertionError: assert ['a', 'b'] == ['a', '', 'b']\n\ntests/test_parser.py:31: AssertionError\n1 failed, 3 passed in 0.04s\n",
		},
		{
			thinking:  "The fields that are empty are dropped. Let me read the splitter.",
			tool:      "read",
			arguments: `{"filePath":"/code/parser.py"}`,
			result:    "def split(line):\n    fields, field, quoted = [], '', False\n    for char in line:\n        if char == '\"':\n            quoted = not quoted\n        elif char == ',' and not quoted:\n            if field:\n                fields.append(field)\n            field = ''\n        else:\n            field += char\n    if field:\n        fields.append(field)\n    return fields\n",
		},
		{
			text:        "Empty fields are skipped because of `if field:`. I remove both conditions.",
			tool:        "edit",
			arguments:   `{"filePath":"/code/parser.py","oldString":"        elif char == ',' and not quoted:\n            if field:\n                fields.append(field)\n            field = ''\n        else:\n            field += char\n    if field:\n        fields.append(field)\n    return fields","newString":"        elif char == ',' and not quoted:\n            fields.append(field)\n            field = ''\n        else:\n            field += char\n    fields.append(field)\n    return fields"}`,
			result:      "Edit applied successfully.",
			retokenized: true,
		},
		{
			tool:      "write",
			arguments: `{"filePath":"/code/notes.md","content":"# Parser\n\nEmpty fields are kept, quoted or not.\n"}`,
			result:    "Wrote file successfully.",
		},
		{
			tool:      "bash",
			arguments: `{"command":"cd /code && python -m pytest -q"}`,
			result:    "....F                                                     [100%]\nE       AssertionError: split('') must be []\n1 failed, 4 passed in 0.05s\n",
		},
		{text: "The parser keeps empty fields now. One test about empty lines fails, which the task does not mention, so I leave it."},
	}
}
