package rawjson_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/gateway/dialect"
	"github.com/rolloutd/rolloutd/internal/gateway/dialect/reply"
	"github.com/rolloutd/rolloutd/internal/rawjson"
)

func TestObjectChangesOnlyWhatIsSet(t *testing.T) {
	t.Parallel()

	for _, tc := range []struct{ name, in, key, value, want string }{
		{"replaces in place", `{ "a" : 1 , "model":"x", "z":[1, 2] }`, "model", `"y"`, `{ "a" : 1 , "model":"y", "z":[1, 2] }`},
		{"adds at the end", `{"a":1}`, "b", `2`, `{"a":1,"b":2}`},
		{"adds to nothing", ` {  } `, "b", `2`, ` {"b":2  } `},
		{"keeps odd spellings elsewhere", `{"n":1.0e+2,"s":"\u00e9\/","b":1}`, "b", `2`, `{"n":1.0e+2,"s":"\u00e9\/","b":2}`},
		{"every one of several", `{"a":1,"a":2}`, "a", `3`, `{"a":3,"a":3}`},
		{"however the key is spelt", `{"mod\u0065l":"x"}`, "model", `"y"`, `{"mod\u0065l":"y"}`},
		{"not below the top", `{"in":{"model":"x"},"s":"\"model\":1"}`, "model", `"y"`, `{"in":{"model":"x"},"s":"\"model\":1","model":"y"}`},
		{"strings that end in backslashes", `{"a":"\\","b":"\\\"","c":1}`, "c", `2`, `{"a":"\\","b":"\\\"","c":2}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()

			o, err := rawjson.ParseObject([]byte(tc.in))
			require.NoError(t, err)
			o.Set(tc.key, []byte(tc.value))
			require.Equal(t, tc.want, string(o.Bytes()))
			got, ok := o.Get(tc.key)
			require.True(t, ok)
			require.Equal(t, tc.value, string(got))
		})
	}
}

func TestObjectHasTheLastDuplicate(t *testing.T) {
	t.Parallel()

	o, err := rawjson.ParseObject([]byte(`{"a":1,"b":{},"a":2}`))
	require.NoError(t, err)

	got, ok := o.Get("a")
	require.True(t, ok)
	require.Equal(t, "2", string(got))

	_, ok = o.Get("c")
	require.False(t, ok)
	o.Set("c", []byte("1"))
	o.Set("c", []byte("2"))
	require.Equal(t, `{"a":1,"b":{},"a":2,"c":2}`, string(o.Bytes()))
}

func TestObjectRemove(t *testing.T) {
	t.Parallel()

	for _, tc := range []struct{ in, want string }{
		{`{"a":1}`, `{}`}, {` { "a" : 1 } `, ` { } `}, {`{"a":1, "b":2}`, `{"b":2}`}, {`{"b":2, "a":1}`, `{"b":2}`},
		{`{"b":2 , "a":1, "c":3}`, `{"b":2, "c":3}`}, {`{"a":1,"b":2,"a":3}`, `{"b":2}`}, {`{"a":1,"a":2}`, `{}`}, {`{"b":1}`, `{"b":1}`},
	} {
		o, err := rawjson.ParseObject([]byte(tc.in))
		require.NoError(t, err)
		o.Remove("a")
		require.Equal(t, tc.want, string(o.Bytes()), tc.in)
		_, ok := o.Get("a")
		require.False(t, ok)
		o.Set("a", []byte("7"))
		require.True(t, json.Valid(o.Bytes()), "%s", o.Bytes())
		o.Remove("a")
		require.Equal(t, tc.want, string(o.Bytes()), tc.in)
	}
}

func TestParseObjectRefuses(t *testing.T) {
	t.Parallel()

	for _, in := range []string{
		``, ` `, `[]`, `"x"`, `{`, `{"a"}`, `{"a":}`, `{"a":1,}`, `{"a":1}}`, `{"a":1} x`, `{"a":[}]}`, `{"a":"x}`, `{a:1}`, `{"a":1 "b":2}`,
	} {
		_, err := rawjson.ParseObject([]byte(in))
		require.Error(t, err, "input %q", in)
		require.Equal(t, fault.Invalid, fault.KindOf(err))
	}
}

func TestOpening(t *testing.T) {
	t.Parallel()

	for _, tc := range []struct {
		name, in, system string
		tools            bool
	}{
		{"text", `{"messages":[{"role":"system","content":"You are"},{"role":"user","content":"x"}],"tools":[{}]}`, "You are", true},
		{"parts", `{"messages":[{"content":[{"type":"image"},{"type":"text","text":"You"},{"text":"no"}],"role":"system"}]}`, "You", false},
		{"no system", `{"messages":[{"role":"user","content":"You are"}],"tools":[]}`, "", false},
		{"nothing", `{}`, "", false},
		{"wrong shapes", `{"messages":{"role":1},"tools":"x"}`, "", false},
		{"wrong parts", `{"messages":[{"role":"system","content":[1,"x",null]}]}`, "", false},
		{"null content", `{"messages":[{"role":"system","content":null}]}`, "", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()

			o, err := rawjson.ParseObject([]byte(tc.in))
			require.NoError(t, err)

			got := dialect.OpeningOf(reply.Chat, o)
			require.Equal(t, tc.system, string(got.System))
			require.Equal(t, tc.tools, got.Tools)
		})
	}
}

// Valid JSON stays valid, and every member that was not set keeps its bytes.
func FuzzObject(f *testing.F) {
	for _, s := range []string{`{}`, `{"model":"x","messages":[{"role":"user","content":"h\"i"}]}`, `{"a":[1,{"b":null}],"a":2}`, "{\"\\u006d\":1}"} {
		f.Add([]byte(s), "model", "m2")
	}

	f.Fuzz(func(t *testing.T, in []byte, key, value string) {
		o, err := rawjson.ParseObject(in)
		if !json.Valid(in) || !bytes.HasPrefix(bytes.TrimSpace(in), []byte("{")) {
			return
		}

		require.NoError(t, err)

		key = strings.ToValidUTF8(key, "")
		v, err := json.Marshal(value)
		require.NoError(t, err)
		o.Set(key, v)
		out := o.Bytes()
		require.True(t, json.Valid(out), "%s", out)

		var before, after map[string]json.RawMessage
		require.NoError(t, json.Unmarshal(in, &before))
		require.NoError(t, json.Unmarshal(out, &after))
		require.Equal(t, string(v), string(after[key]))
		delete(before, key)
		delete(after, key)
		require.Equal(t, before, after)

		o.Remove(key)
		clear(after)
		require.NoError(t, json.Unmarshal(o.Bytes(), &after))
		require.Equal(t, before, after)
	})
}
