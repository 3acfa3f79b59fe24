package trajectory_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/trajectory"
)

// A subagent's request has the prompt of a call that started it.
func TestDelegates(t *testing.T) {
	t.Parallel()

	const request = `{"messages":[{"role":"system","content":"You help."},{"role":"user","content":[{"type":"text","text":"count the files\n"}]}]}`

	for call, want := range map[string]bool{
		`{"function":{"name":"task","arguments":"{\"prompt\":\"count the files\"}"}}`: true,
		`{"function":{"name":"task","arguments":"{\"prompt\":\"count\"}"}}`:           false,
		`{"function":{"name":"task","arguments":"{\"prompt\":\"\"}"}}`:                false,
		`{"function":{"name":"task","arguments":"{"}}`:                                false,
		`{"function":{"name":"bash","arguments":"{\"prompt\":\"count the files\"}"}}`: false,
	} {
		turn := rollout.Turn{Response: []byte(`{"choices":[{"message":{"tool_calls":[` + call + `]}}]}`)}
		require.Equal(t, want, trajectory.Delegates([]byte(request), &turn), call)
	}
}

// A request continues a turn if it begins with the turn's messages and has its reply after them, in every API.
func TestContinues(t *testing.T) {
	t.Parallel()

	const (
		user  = `{"role":"user","content":"do it"}`
		calls = `{"choices":[{"message":{"content":"I look.","tool_calls":[{"id":"c1"},{"id":"c2"}]}}]}`
	)
	for name, c := range map[string]struct {
		before, reply, next string
		want                bool
	}{
		"a text": {`{"messages":[` + user + `]}`, `{"choices":[{"message":{"content":" Hello\n"}}]}`,
			`{"messages":[{"role": "user", "content": "do it"},{"role":"assistant","content":"Hello"},{"role":"user","content":"on"}]}`, true},
		"another text": {`{"messages":[` + user + `]}`, `{"choices":[{"message":{"content":"Hello"}}]}`,
			`{"messages":[` + user + `,{"role":"assistant","content":"Hell"}]}`, false},
		"calls": {`{"messages":[` + user + `]}`, calls,
			`{"messages":[` + user + `,{"role":"assistant","tool_calls":[{"id":"c1"},{"id":"c2"}]},{"role":"tool","tool_call_id":"c1"}]}`, true},
		"a call without the other": {`{"messages":[` + user + `]}`, calls,
			`{"messages":[` + user + `,{"role":"assistant","content":"I look.","tool_calls":[{"id":"c1"}]}]}`, false},
		"the same request":  {`{"messages":[` + user + `]}`, calls, `{"messages":[` + user + `]}`, false},
		"another beginning": {`{"messages":[` + user + `]}`, calls, `{"messages":[{"role":"user","content":"praise"},{"content":["c1","c2"]}]}`, false},
		"no messages":       {`{}`, calls, `{"messages":[{"content":["c1","c2"]}]}`, false},
		"a response": {`{"input":[` + user + `]}`, `{"output":[{"type":"function_call","call_id":"c1"}]}`,
			`{"input":[` + user + `,{"type":"function_call","call_id":"c1"},{"type":"function_call_output","call_id":"c1"}]}`, true},
		"a message": {`{"messages":[` + user + `]}`, `{"content":[{"type":"tool_use","id":"c1"}]}`,
			`{"messages":[` + user + `,{"role":"assistant","content":[{"type":"tool_use","id":"c1"}]}]}`, true},
		"a completion":             {`{"prompt":"Q: do it A:"}`, `{"choices":[{"text":" Hello"}]}`, `{"prompt":"Q: do it A: Hello Q: on"}`, true},
		"another completion":       {`{"prompt":"Q: do it A:"}`, `{"choices":[{"text":" Hello"}]}`, `{"prompt":"Q: do it A: Hi"}`, false},
		"a completion from a list": {`{"prompt":"Q"}`, `{"choices":[{"text":"A"}]}`, `{"messages":["Q","A"]}`, false},
		"not JSON":                 {`{"messages":[` + user + `]}`, calls, `nonsense`, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			turn := rollout.Turn{Request: []byte(c.before), Response: []byte(c.reply)}
			require.Equal(t, c.want, trajectory.Continues([]byte(c.next), &turn))
		})
	}
}
