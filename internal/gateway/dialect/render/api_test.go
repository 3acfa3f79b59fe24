package render_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/gateway/dialect"
	"github.com/rolloutd/rolloutd/internal/gateway/dialect/render"
	"github.com/rolloutd/rolloutd/internal/gateway/dialect/reply"
	"github.com/rolloutd/rolloutd/internal/rawjson"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

func apis() []reply.API {
	return []reply.API{reply.Chat, reply.Completions, reply.Responses, reply.Messages}
}

// readAs feeds a stream of an API in pieces of n bytes and returns it.
func readAs(t *testing.T, api reply.API, raw string, n int) *reply.Stream {
	t.Helper()

	s, err := feed(api, []byte(raw), n)
	require.NoError(t, err)

	return s
}

func feed(api reply.API, raw []byte, n int) (*reply.Stream, error) {
	s := reply.NewStream(&reply.Reply{API: api})

	for at := 0; at < len(raw); at += n {
		piece := raw[at:min(at+n, len(raw))]
		copy(s.Room(len(piece)), piece)

		if err := s.Advance(len(piece)); err != nil {
			return s, err
		}
	}

	return s, s.Close()
}

func cutAt(s, before string) (string, string, bool) { return strings.Cut(s, before) }

func oneLine(s string) string { return strings.ReplaceAll(s, "\n\t", "") }

// The empty reply is complete and has no content in either form.
func TestEmptyEndsASession(t *testing.T) {
	t.Parallel()

	for _, api := range apis() {
		empty := render.View{API: api, Usage: true}.Empty("m")
		require.True(t, json.Valid(empty.JSON()), api)
		s := readAs(t, api, string(empty.Events()), 100)
		require.True(t, s.Done(), api)
		require.Contains(t, []string{"stop", "completed", "end_turn"}, s.FinishReason)

		back, err := render.Assemble(api, empty.Events())
		require.NoError(t, err)
		require.JSONEq(t, string(empty.JSON()), string(back.JSON()))
	}
}

func TestOpenings(t *testing.T) {
	t.Parallel()

	for _, tc := range []struct {
		api        reply.API
		in, system string
		tools      bool
	}{
		{reply.Messages, `{"system":"You are","messages":[],"tools":[{}]}`, "You are", true},
		{reply.Messages, `{"system":[{"type":"text","text":"You"},{"type":"text","text":"x"}]}`, "You", false},
		{reply.Messages, `{"messages":[{"role":"system","content":"no"}]}`, "", false},
		{reply.Responses, `{"instructions":"You are","input":"hi"}`, "You are", false},
		{reply.Responses, `{"instructions":null,"input":[{"role":"developer","content":[{"type":"input_text","text":"You"}]}],"tools":[1]}`, "You", true},
		{reply.Responses, `{"input":"hi"}`, "", false},
		{reply.Completions, `{"prompt":"hi","system":"x"}`, "", false},
	} {
		o, err := rawjson.ParseObject([]byte(tc.in))
		require.NoError(t, err)

		got := dialect.OpeningOf(tc.api, o)
		require.Equal(t, tc.system, string(got.System), tc.in)
		require.Equal(t, tc.tools, got.Tools, tc.in)
	}
}

// fuzzAPI checks for any input that the result does not depend on how the stream is split into reads, that
// nothing panics, and that a reply assembled from valid JSON is valid.
func fuzzAPI(f *testing.F, api reply.API, seeds ...string) {
	f.Helper()

	for _, s := range seeds {
		f.Add([]byte(s), 3)
		f.Add([]byte(strings.ReplaceAll(s, "\n", "\r\n")), 1)
	}

	f.Fuzz(func(t *testing.T, raw []byte, n int) {
		whole, err1 := feed(api, raw, max(len(raw), 1))
		pieces, err2 := feed(api, raw, max(n, 1))
		require.Equal(t, err1 == nil, err2 == nil)

		if err1 == nil {
			require.Equal(t, whole.FinishReason, pieces.FinishReason)
			require.Equal(t, whole.Usage, pieces.Usage)
			require.Equal(t, whole.Error, pieces.Error)
			require.Equal(t, len(whole.Logprobs), len(pieces.Logprobs))
		}

		for _, v := range []render.View{{}, {Logprobs: true, Top: 1}, render.All()} {
			checkView(t, v, raw)
		}

		put, err := render.Assemble(api, raw)
		if err != nil {
			return
		}

		if _, err := render.Assemble(api, put.Events()); json.Valid(put.JSON()) {
			require.NoError(t, err)
		}
	})
}

// checkView checks that valid JSON stays valid under a view and does not change when the view is applied again.
func checkView(t *testing.T, v render.View, raw []byte) {
	t.Helper()

	got := v.Of(raw)
	require.LessOrEqual(t, len(got), len(raw)+len(raw)/2)

	if json.Valid(raw) && rawjson.IsObject(raw) {
		require.True(t, json.Valid(got), "%s", got)
		require.Equal(t, string(got), string(v.Of(got)))
	}
}

// Cached tokens of a prompt count as part of the prompt, regardless of how the API counts them.
func TestCachedPrompts(t *testing.T) {
	t.Parallel()

	want := rollout.Usage{PromptTokens: 10, CachedPromptTokens: 6, CompletionTokens: 2}

	for api, raw := range map[reply.API][]string{
		reply.Chat: {
			`{"choices":[{"finish_reason":"stop"}],"usage":{"prompt_tokens":10,"completion_tokens":2,"prompt_tokens_details":{"audio_tokens":0,"cached_tokens":6}}}`,
			`{"choices":[{"finish_reason":"stop"}],"usage":{"prompt_tokens":10,"prompt_tokens_details":{"cached_tokens":6},"completion_tokens":2,"completion_tokens_details":{"cached_tokens":1}}}`,
		},
		reply.Responses: {`{"type":"response.completed","response":{"status":"completed","usage":{"input_tokens":10,"input_tokens_details":{"cached_tokens":6},"output_tokens":2}}}`},
		reply.Messages:  {`{"type":"message","stop_reason":"end_turn","usage":{"input_tokens":3,"cache_creation_input_tokens":1,"cache_read_input_tokens":6,"output_tokens":2}}`},
	} {
		for _, data := range raw {
			require.Equal(t, want, readAs(t, api, "data: "+data+"\n\n", 9).Usage, api)
		}
	}

	for _, details := range []string{"null", "7", `{"cached_tokens":null}`, "[]"} {
		s := readAs(
			t,
			reply.Chat,
			`data: {"usage":{"prompt_tokens":10,"prompt_tokens_details":`+details+`,"completion_tokens":2}}`+"\n\n",
			9,
		)
		require.Equal(t, rollout.Usage{PromptTokens: 10, CompletionTokens: 2}, s.Usage, details)
	}
}
