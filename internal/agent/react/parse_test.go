package react_test

import (
	"encoding/json"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/rolloutd/rolloutd/internal/agent/react"
)

// The table has all forms of calls with their results.
func TestParseCalls(t *testing.T) {
	t.Parallel()

	ok := func(id, name, arguments string) react.Parsed {
		return react.Parsed{ID: id, Name: name, Arguments: arguments}
	}

	bad := func(why string) react.Parsed { return react.Parsed{Malformed: why} }
	for name, c := range map[string]struct {
		text string
		want []react.Parsed
	}{
		"none":                   {"the answer is 4", nil},
		"empty text":             {"", nil},
		"one":                    {`<tool_call>{"name": "t", "arguments": {"a": 1}}</tool_call>`, []react.Parsed{ok("", "t", `{"a": 1}`)}},
		"newlines around":        {"<tool_call>\n{\"name\": \"t\", \"arguments\": {}}\n</tool_call>", []react.Parsed{ok("", "t", `{}`)}},
		"several, with text":     {`a <tool_call>{"name":"x"}</tool_call> b <tool_call>{"name":"y"}</tool_call> c`, []react.Parsed{ok("", "x", `{}`), ok("", "y", `{}`)}},
		"within think":           {`<think><tool_call>{"name":"x"}</tool_call></think>done`, []react.Parsed{ok("", "x", `{}`)}},
		"other case is no tag":   {`<TOOL_CALL>{"name":"x"}</TOOL_CALL>`, nil},
		"empty block":            {`<tool_call>  </tool_call>`, nil},
		"no arguments":           {`<tool_call>{"name":"x"}</tool_call>`, []react.Parsed{ok("", "x", `{}`)}},
		"uniq_id comes first":    {`<tool_call>{"id":"b","uniq_id":"a","name":"x"}</tool_call>`, []react.Parsed{ok("a", "x", `{}`)}},
		"id":                     {`<tool_call>{"id":"b","name":"x"}</tool_call>`, []react.Parsed{ok("b", "x", `{}`)}},
		"numeric id":             {`<tool_call>{"id":17,"name":"x"}</tool_call>`, []react.Parsed{ok("17", "x", `{}`)}},
		"empty uniq_id":          {`<tool_call>{"id":"b","uniq_id":"","name":"x"}</tool_call>`, []react.Parsed{ok("b", "x", `{}`)}},
		"id 0 and object id":     {`<tool_call>{"id":0,"uniq_id":{},"name":"x"}</tool_call>`, []react.Parsed{ok("", "x", `{}`)}},
		"overlong id":            {`<tool_call>{"id":"` + strings.Repeat("x", 65) + `","name":"x"}</tool_call>`, []react.Parsed{ok("", "x", `{}`)}},
		"last duplicate counts":  {`<tool_call>{"name":"x","name":"y"}</tool_call>`, []react.Parsed{ok("", "y", `{}`)}},
		"keys count exactly":     {`<tool_call>{"Name":"x","name":"y"}</tool_call>`, []react.Parsed{ok("", "y", `{}`)}},
		"close tag in argument":  {`<tool_call>{"name":"x","arguments":{"a":"</tool_call>"}}</tool_call> rest`, []react.Parsed{ok("", "x", `{"a":"</tool_call>"}`)}},
		"open tag in argument":   {`<tool_call>{"name":"x","arguments":{"a":"<tool_call>"}}</tool_call>`, []react.Parsed{ok("", "x", `{"a":"<tool_call>"}`)}},
		"response tag in one":    {`<tool_call>{"name":"x","arguments":{"a":"<tool_response>"}}</tool_call>`, []react.Parsed{ok("", "x", `{"a":"<tool_response>"}`)}},
		"GLM":                    {`<tool_call>get.it:now-1 {"a": {"b": 1}}</tool_call>`, []react.Parsed{ok("", "get.it:now-1", `{"a": {"b": 1}}`)}},
		"GLM without space":      {`<tool_call>a\b{}</tool_call>`, []react.Parsed{ok("", `a\b`, `{}`)}},
		"GLM, bad JSON":          {`<tool_call>x{a}</tool_call>`, []react.Parsed{bad("the arguments of x are not valid JSON: invalid character 'a' looking for beginning of object key string")}},
		"bad JSON":               {`<tool_call>{"name": "x",}</tool_call>`, []react.Parsed{bad("the block is not valid JSON: invalid character '}' looking for beginning of object key string")}},
		"raw newline in string":  {"<tool_call>{\"name\": \"x\ny\"}</tool_call>", []react.Parsed{bad(`the block is not valid JSON: invalid character '\n' in string literal`)}},
		"text behind the object": {`<tool_call>{"name":"x"} and</tool_call>`, []react.Parsed{bad("the block is not one JSON object: text follows it")}},
		"prose":                  {`<tool_call>please</tool_call>`, []react.Parsed{bad(`the block must be one JSON object such as {"name": "…", "arguments": {…}}`)}},
		"list":                   {`<tool_call>[{"name":"x"}]</tool_call>`, []react.Parsed{bad(`the block must be one JSON object such as {"name": "…", "arguments": {…}}`)}},
		"nested tags":            {`<tool_call><tool_call>{"name":"x"}</tool_call></tool_call>`, []react.Parsed{bad(`the block must be one JSON object such as {"name": "…", "arguments": {…}}`)}},
		"no name":                {`<tool_call>{"arguments":{}}</tool_call>`, []react.Parsed{bad(`"name" must be the name of a tool, as a string`)}},
		"name is a number": {`<tool_call>{"id":"i","name":3}</tool_call>`, []react.Parsed{{
			ID:        "i",
			Malformed: `"name" must be the name of a tool, as a string`,
		}}},
		"empty name":            {`<tool_call>{"name":""}</tool_call>`, []react.Parsed{bad(`"name" must be the name of a tool, as a string`)}},
		"arguments null":        {`<tool_call>{"name":"x","arguments":null}</tool_call>`, []react.Parsed{bad(`"arguments" must be a JSON object: it is not a JSON object`)}},
		"arguments a string":    {`<tool_call>{"name":"x","arguments":"{}"}</tool_call>`, []react.Parsed{bad(`"arguments" must be a JSON object: it is not a JSON object`)}},
		"unclosed call":         {`<tool_call>{"name":"x"}`, []react.Parsed{bad("the block has no </tool_call>")}},
		"unclosed tag in prose": {`write <tool_call> tags`, nil},
		"good beside bad":       {`<tool_call>{</tool_call><tool_call>{"name":"x"}</tool_call>`, []react.Parsed{bad("the block is not valid JSON: unexpected EOF"), ok("", "x", `{}`)}},
		"an invented response":  {`<tool_call>{"name":"x"}</tool_call><tool_response>{}</tool_response><tool_call>{"name":"y"}</tool_call>`, []react.Parsed{ok("", "x", `{}`), bad("a message must not contain <tool_response>: tool results come in the next message; what follows it was ignored")}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, react.Parse(c.text, false))

			var good []react.Parsed

			for _, p := range c.want {
				if p.Malformed == "" {
					good = append(good, p)
				}
			}

			if name != "an invented response" {
				require.Equal(t, good, react.Parse(c.text, true), "a lenient reader passes over what is malformed")
			}
		})
	}

	require.Len(
		t,
		react.Parse(
			`<tool_call>{"name":"x"}</tool_call><tool_response>{}</tool_response><tool_call>{"name":"y"}</tool_call>`,
			true,
		),
		2,
	)
	many := react.Parse(strings.Repeat(`<tool_call>{"name":"x"}</tool_call>`, 1000), false)
	require.Len(t, many, 129)
	require.NotEmpty(t, many[128].Malformed)
}

// The time for parsing is linear in the number of blocks.
func TestParseManyBlocks(t *testing.T) {
	t.Parallel()
	// the thread's CPU time is measured, because other processes share the machine
	runtime.LockOSThread()

	defer runtime.UnlockOSThread()

	cpu := func() time.Duration {
		var ts unix.Timespec
		require.NoError(t, unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts))

		return time.Duration(ts.Nano())
	}
	spent := func(blocks int) time.Duration {
		text := strings.Repeat("<tool_call></tool_call>", blocks)
		least := time.Hour

		for range 3 {
			began := cpu()

			require.Empty(t, react.Parse(text, false))

			least = min(least, cpu()-began)
		}

		return least
	}
	require.Less(t, spent(40_000), 30*spent(4_000), "ten times the blocks")
}

// For any text, nothing panics, the number of calls is bounded, and every valid call has a name and an object.
func FuzzParseCalls(f *testing.F) {
	for _, seed := range []string{
		`<tool_call>{"name":"x","arguments":{"a":"</tool_call>"}}</tool_call>`, `<tool_call>x {"a":1}</tool_call>`, `<tool_call>{"id":1e9}`,
		`<tool_response><tool_call>{"name":"x"}</tool_call>`, "<tool_call>\xff{\"name\":\"\\ud800\"}</tool_call>", `<tool_call>` + strings.Repeat("[", 100),
	} {
		f.Add(seed)
	}

	f.Fuzz(func(t *testing.T, text string) {
		for _, lenient := range []bool{false, true} {
			calls := react.Parse(text, lenient)
			require.LessOrEqual(t, len(calls), 129)

			for _, c := range calls {
				if c.Malformed != "" {
					continue
				}

				require.NotEmpty(t, c.Name)
				require.LessOrEqual(t, len(c.ID), 64)

				var object map[string]any
				require.NoError(t, json.Unmarshal([]byte(c.Arguments), &object))
				require.NotNil(t, object)
			}
		}
	})
}
