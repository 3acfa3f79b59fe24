package reply_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/gateway/dialect/reply"
	"github.com/rolloutd/rolloutd/internal/rawjson"
)

// read reads the lists of tool calls of the chunks of a stream.
func read(t *testing.T, lists ...string) []reply.CallPiece {
	t.Helper()

	var pieces []reply.CallPiece

	for _, list := range lists {
		c := rawjson.Cursor{Src: []byte(list)}
		pieces = reply.AppendCalls(pieces, &c)
		require.True(t, c.AtEnd(), list)
	}

	return pieces
}

// shapeOf returns how the calls of a stream differ from OpenAI's form.
func shapeOf(pieces []reply.CallPiece) string {
	var s reply.CallShape
	for _, p := range pieces {
		s.Add(p, false)
	}

	s.Close(false)

	return s.Odd
}

// texts writes calls as "id name arguments".
func texts(list []reply.ToolCall) []string {
	out := []string{}

	for _, c := range list {
		var args string
		if json.Unmarshal(rawjson.AppendString(nil, c.Args), &args) != nil {
			args = string(c.Args)
		}

		out = append(out, strings.TrimSpace(fmt.Sprintf("%s %s %s", c.ID, c.Name, args)))
	}

	return out
}

func TestJoin(t *testing.T) {
	t.Parallel()

	const one, two = `{\"x\":1}`, `{\"x\":2}`
	for _, tc := range []struct {
		name  string
		lists []string
		want  []string

		// ""; the form is OpenAI's
		odd string
	}{
		{"OpenAI's form", []string{
			`[{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":""}}]`, `[{"index":0,"function":{"arguments":"{\"x\""}}]`,
			`[{"index":0,"id":null,"function":{"name":null,"arguments":":1}"}}]`, `[{"index":1,"id":"b","function":{"name":"g","arguments":"{}"}}]`,
		}, []string{`a f {"x":1}`, `b g {}`}, ""},
		{"an id in each piece", []string{`[{"index":0,"id":"a","function":{"name":"f","arguments":"{\"x\""}}]`, `[{"index":0,"id":"a","function":{"name":"","arguments":":1}"}}]`},
			[]string{`a f {"x":1}`}, ""},
		{"null and nothing", []string{`null`, `[]`}, []string{}, ""},

		{"an index in the first piece only", []string{
			`[{"index":0,"id":"a","function":{"name":"f","arguments":""}}]`, `[{"index":null,"function":{"arguments":"{\"x\""}}]`, `[{"function":{"arguments":":1}"}}]`,
			`[{"index":1,"id":"b","function":{"name":"g","arguments":""}}]`, `[{"function":{"arguments":"{}"}}]`,
		}, []string{`a f {"x":1}`, `b g {}`}, "without index"},
		{"an index in all but the first piece", []string{
			`[{"id":"a","function":{"name":"f","arguments":""}}]`, `[{"index":0,"function":{"arguments":"{\"x\""}}]`, `[{"index":0,"function":{"arguments":":1}"}}]`,
		}, []string{`a f {"x":1}`}, "without index"},
		{"an index in the first piece only, and an id in each", []string{
			`[{"index":0,"id":"a","function":{"name":"f","arguments":""}}]`, `[{"index":1,"id":"b","function":{"name":"g","arguments":"{}"}}]`,
			`[{"id":"a","function":{"arguments":"{\"x\""}}]`, `[{"id":"a","function":{"arguments":":1}"}}]`,
		}, []string{`a f {"x":1}`, `b g {}`}, "without index"},
		{"a shared index", []string{`[{"index":0,"id":"a","function":{"name":"f","arguments":"` + one + `"}}]`, `[{"index":0,"id":"b","function":{"name":"f","arguments":"` + two + `"}}]`},
			[]string{`a f {"x":1}`, `b f {"x":2}`}, "same index"},
		{"a shared index, in pieces", []string{
			`[{"index":0,"id":"a","function":{"name":"f","arguments":""}}]`, `[{"index":0,"function":{"arguments":"` + one + `"}}]`,
			`[{"index":0,"id":"b","function":{"name":"f","arguments":""}}]`, `[{"index":0,"function":{"arguments":"` + two + `"}}]`,
		}, []string{`a f {"x":1}`, `b f {"x":2}`}, "same index"},
		{"a shared index, no ids", []string{`[{"index":0,"function":{"name":"f","arguments":"` + one + `"}}]`, `[{"index":0,"function":{"name":"f","arguments":"` + two + `"}}]`},
			[]string{`f {"x":1}`, `f {"x":2}`}, "without id"},
		{"a shared index, no ids, in pieces", []string{
			`[{"index":0,"function":{"name":"f","arguments":""}}]`, `[{"index":0,"function":{"arguments":"` + one + `"}}]`,
			`[{"index":0,"function":{"name":"f","arguments":""}}]`, `[{"index":0,"function":{"arguments":"` + two + `"}}]`,
		}, []string{`f {"x":1}`, `f {"x":2}`}, "without id"},
		{"a shared index, other names", []string{`[{"index":0,"function":{"name":"f","arguments":"` + one + `"}}]`, `[{"index":0,"function":{"name":"g","arguments":"` + one + `"}}]`},
			[]string{`f {"x":1}`, `g {"x":1}`}, "without id"},
		{"a shared index and id", []string{`[{"index":0,"id":"a","function":{"name":"f","arguments":"` + one + `"}}]`, `[{"index":0,"id":"a","function":{"name":"f","arguments":"` + two + `"}}]`},
			[]string{`a f {"x":1}`, `a f {"x":2}`}, "repeats its name"},
		{"equal ids", []string{`[{"index":0,"id":"a","function":{"name":"f","arguments":"` + one + `"}}]`, `[{"index":1,"id":"a","function":{"name":"f","arguments":"` + one + `"}}]`},
			[]string{`a f {"x":1}`, `a f {"x":1}`}, "same id"},
		{"no index", []string{`[{"id":"a","function":{"name":"f","arguments":"` + one + `"}}]`, `[{"id":"b","function":{"name":"f","arguments":"{\"x\""}}]`, `[{"function":{"arguments":":2}"}}]`},
			[]string{`a f {"x":1}`, `b f {"x":2}`}, "without index"},
		{"no index, in one list", []string{`[{"id":"a","function":{"name":"f","arguments":""}},{"id":"b","function":{"name":"g","arguments":""}}]`,
			`[{"function":{"arguments":"` + one + `"}},{"function":{"arguments":"` + two + `"}}]`}, []string{`a f {"x":1}`, `b g {"x":2}`}, "without index"},
		{"no index, pieces by id", []string{`[{"id":"a","function":{"name":"f","arguments":""}},{"id":"b","function":{"name":"g","arguments":""}}]`,
			`[{"id":"b","function":{"arguments":"` + two + `"}}]`, `[{"id":"a","function":{"arguments":"` + one + `"}}]`}, []string{`a f {"x":1}`, `b g {"x":2}`}, "without index"},
		{"neither index nor id", []string{`[{"function":{"name":"f","arguments":"` + one + `"}}]`, `[{"function":{"name":"f","arguments":"` + two + `"}}]`},
			[]string{`f {"x":1}`, `f {"x":2}`}, "without index"},
		{"an index as a string", []string{`[{"index":"0","id":"a","function":{"name":"f","arguments":"{"}}]`, `[{"index":"1","id":"b","function":{"name":"g","arguments":"{}"}}]`, `[{"index":"0","function":{"arguments":"}"}}]`},
			[]string{`a f {}`, `b g {}`}, "not a number"},
		{"an index from 1", []string{`[{"index":1,"id":"a","function":{"name":"f","arguments":"{}"}}]`}, []string{`a f {}`}, "not numbered from 0"},
		{"an empty id", []string{`[{"index":0,"id":"","function":{"name":"f","arguments":"{}"}}]`}, []string{`f {}`}, "without id"},
		{"an id as a number", []string{`[{"index":0,"id":7,"function":{"name":"f","arguments":"{}"}}]`}, []string{`7 f {}`}, "id is not a string"},
		{"another id for each piece", []string{`[{"index":0,"id":"a","function":{"name":"f","arguments":"{\"x\""}}]`, `[{"index":0,"id":"b","function":{"name":"f","arguments":":1}"}}]`},
			[]string{`b f {"x":1}`}, "same index"},
		{"one call instead of a list", []string{`{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}`}, []string{`a f {}`}, "is one call"},
		{"members outside of the function", []string{`[{"index":0,"id":"a","name":"f","arguments":{"x":1}}]`}, []string{`a f {"x":1}`}, "arguments are not a string"},
		{"arguments as an object", []string{`[{"index":0,"id":"a","function":{"name":"f","arguments":{"x":"\""}}}]`}, []string{`a f {"x":"\""}`}, "arguments are not a string"},
		{"arguments as PHP's empty list", []string{`[{"index":0,"id":"a","function":{"name":"f","arguments":[ ]}}]`}, []string{`a f {}`}, "arguments are not a string"},
		{"a name with each piece", []string{`[{"index":0,"id":"a","function":{"name":"bash","arguments":"{\"x\""}}]`, `[{"index":0,"id":"a","function":{"name":"bash","arguments":":1}"}}]`,
			`[{"index":0,"id":"a","function":{"name":"bash","arguments":""}}]`}, []string{`a bash {"x":1}`}, "repeats its name"},
		{"a name that grows", []string{`[{"index":0,"id":"a","function":{"name":"ba"}}]`, `[{"index":0,"function":{"name":"bash","arguments":"{}"}}]`}, []string{`a bash {}`}, "repeats its name"},
		{"a name in pieces", []string{`[{"index":0,"id":"a","function":{"name":"ba"}}]`, `[{"index":0,"function":{"name":"sh","arguments":"{}"}}]`}, []string{`a bash {}`}, "repeats its name"},
		{"a whole call repeated", []string{`[{"index":0,"id":"a","function":{"name":"f","arguments":"{\"x\""}}]`, `[{"index":0,"function":{"arguments":":1}"}}]`,
			`[{"index":0,"id":"a","function":{"name":"f","arguments":"{ \"x\": 1 }"}}]`}, []string{`a f {"x":1}`}, "repeats its name"},
		{"a whole call repeated, as a string", []string{`[{"index":0,"id":"a","function":{"name":"f","arguments":"{\"x\""}}]`, `[{"index":0,"id":"a","function":{"name":"f","arguments":":1}"}}]`,
			`[{"index":0,"id":"a","function":{"name":"f","arguments":"\"{\\\"x\\\":1}\""}}]`}, []string{`a f {"x":1}`}, "repeats its name"},
		{"a whole call repeated in pieces", []string{`[{"index":0,"id":"a","function":{"name":"f","arguments":"` + one + `"}}]`,
			`[{"index":0,"id":"a","function":{"name":"f","arguments":"{\"x\""}}]`, `[{"index":0,"function":{"arguments":":1}"}}]`}, []string{`a f {"x":1}`}, "repeats its name"},
		{"whole arguments repeated", []string{`[{"index":0,"id":"a","function":{"name":"f","arguments":"` + one + `"}}]`, `[{"index":0,"function":{"arguments":"` + one + `"}}]`},
			[]string{`a f {"x":1}`}, reply.BadArguments},
		{"all arguments so far", []string{`[{"index":0,"id":"a","function":{"name":"f","arguments":"{\"x"}}]`, `[{"index":0,"function":{"arguments":"{\"x\":"}}]`, `[{"index":0,"function":{"arguments":"` + one + `"}}]`},
			[]string{`a f {"x":1}`}, reply.BadArguments},
		{"arguments that begin again", []string{`[{"index":0,"id":"a","function":{"name":"f","arguments":"{\"x"}}]`, `[{"index":0,"function":{"arguments":"{\"x\":"}}]`, `[{"index":0,"function":{"arguments":"1}"}}]`},
			[]string{`a f {"x":1}`}, reply.BadArguments},
		{"empty arguments before the others", []string{`[{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}]`, `[{"index":0,"function":{"arguments":"{\"x\""}}]`, `[{"index":0,"function":{"arguments":":1}"}}]`},
			[]string{`a f {"x":1}`}, reply.BadArguments},
		{"no arguments", []string{`[{"index":0,"id":"a","function":{"name":"f"}}]`}, []string{`a f`}, reply.BadArguments},

		// What the model wrote stays: its mistakes are not the engine's.
		{"the model's own broken arguments", []string{`[{"index":0,"id":"a","function":{"name":"f","arguments":"{\"x\":"}}]`, `[{"index":0,"function":{"arguments":"{}"}}]`},
			[]string{`a f {"x":{}`}, reply.BadArguments},
		{"the model's own two objects", []string{`[{"index":0,"id":"a","function":{"name":"f","arguments":"` + one + `"}}]`, `[{"index":0,"function":{"arguments":"` + two + `"}}]`},
			[]string{`a f {"x":1}{"x":2}`}, reply.BadArguments},
		{"the model's own string", []string{`[{"index":0,"id":"a","function":{"name":"f","arguments":"\"{\\\"x\\\":1}\""}}]`}, []string{`a f "{\"x\":1}"`}, reply.BadArguments},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			pieces := read(t, tc.lists...)
			list, ok := reply.JoinCalls(pieces)
			require.True(t, ok)
			require.Equal(t, tc.want, texts(list))

			if odd := shapeOf(pieces); tc.odd == "" {
				require.Empty(t, odd)
			} else {
				require.Contains(t, odd, tc.odd)
			}
		})
	}
}

// A message has whole calls: none are joined, whatever numbers and ids they have.
func TestWhole(t *testing.T) {
	t.Parallel()
	pieces := read(
		t,
		`[{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}},null,{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}]`,
	)
	list, ok := reply.WholeCalls(pieces)
	require.True(t, ok)
	require.Equal(t, []string{`a f {}`, `a f {}`}, texts(list))

	_, ok = reply.WholeCalls(make([]reply.CallPiece, 1025))
	require.False(t, ok)
}

// A hostile endpoint can send many pieces in few bytes: no more are kept than are joined.
func TestTooManyPieces(t *testing.T) {
	t.Parallel()
	pieces := read(t, "[{}"+strings.Repeat(",{}", 1<<18)+"]")
	require.Less(t, len(pieces), 1<<18)

	for _, join := range []func([]reply.CallPiece) ([]reply.ToolCall, bool){reply.JoinCalls, reply.WholeCalls} {
		_, ok := join(pieces)
		require.False(t, ok)
	}
}

// Any pieces give calls within the bound. Pieces of OpenAI's form give as many calls as it numbers, with
// their own texts.
func FuzzJoin(f *testing.F) {
	f.Add(
		`[{"index":0,"id":"a","function":{"name":"f","arguments":"{\"x\":"}}]`,
		`[{"index":0,"function":{"arguments":"1}"}}]`,
		`[{"index":0,"id":"a","function":{"name":"f","arguments":"{\"x\":1}"}}]`,
	)
	f.Add(
		`{"index":"0","id":7,"name":"f","arguments":[]}`,
		`[null,{"function":null}]`,
		`[{"id":"\ud83d","function":{"arguments":"\ude00"}}]`,
	)
	f.Fuzz(func(t *testing.T, a, b, c string) {
		var pieces []reply.CallPiece

		for _, list := range []string{a, b, c} {
			in := rawjson.Cursor{Src: []byte(list)}
			if pieces = reply.AppendCalls(pieces, &in); !in.AtEnd() {
				return
			}
		}

		list, ok := reply.JoinCalls(pieces)
		if !ok || shapeOf(pieces) != "" {
			return
		}

		text := map[int]string{}
		for _, p := range pieces {
			text[p.Index] += string(p.Args)
		}

		require.Len(t, list, len(text))

		for i, call := range list {
			require.Equal(t, text[i], string(call.Args))
		}
	})
}
