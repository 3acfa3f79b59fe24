package render_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/gateway/dialect/render"
	"github.com/rolloutd/rolloutd/internal/gateway/dialect/reply"
)

// Members that were not requested are removed, and every other byte is unchanged.
func TestView(t *testing.T) {
	t.Parallel()

	const entry = `{"token":"H","logprob":-0.5,"bytes":[72],"top_logprobs":[{"token":"H","logprob":-0.5}, {"token":"]}","logprob":-3}],"x":"[\""}`

	all := render.All()
	for _, tc := range []struct {
		name, in, want string
		view           render.View
	}{
		{"all of it", `{"choices":[{"token_ids":[1]}] }`, `{"choices":[{"token_ids":[1]}] }`, all},
		{"nothing to take", ` {"choices" :[{"delta":{"content":"token_ids"},"finish_reason":null}],"x":1.0e+2}`, ` {"choices" :[{"delta":{"content":"token_ids"},"finish_reason":null}],"x":1.0e+2}`, render.View{}},
		{"ids, last", `{"choices":[{"index":0,"token_ids":[1,2]}],"prompt_token_ids":[3, 4]}`, `{"choices":[{"index":0}]}`, render.View{}},
		{"ids, first", `{"prompt_token_ids":[3],"choices":[{"token_ids":[1],"index":0}]}`, `{"choices":[{"index":0}]}`, render.View{}},
		{"ids, alone", `{"choices":[{ "token_ids" : [1] }]}`, `{"choices":[{}]}`, render.View{}},
		{"ids, side by side at the end", `{"choices":[{"a":1, "prompt_token_ids":[1], "token_ids":[2]}]}`, `{"choices":[{"a":1}]}`, render.View{}},
		{"versions of ids", `{"choices":[{"index":0,"weight_versions":[{"version":"]","start":0,"end":1}]}]}`, `{"choices":[{"index":0}]}`, render.View{}},
		{"ids that are null", `{"choices":[{"token_ids":null,"a":1}],"prompt_token_ids":null}`, `{"choices":[{"a":1}]}`, render.View{}},
		{"ids of every choice", `{"choices":[{"token_ids":[1],"a":1},{"token_ids":[1],"a":2}]}`, `{"choices":[{"a":1},{"a":2}]}`, render.View{}},
		{"logprobs", `{"choices":[{"index":0,"logprobs":{"content":[` + entry + `]},"finish_reason":null}]}`, `{"choices":[{"index":0,"logprobs":null,"finish_reason":null}]}`, render.View{
			IDs:   true,
			Usage: true,
		}},
		{"logprobs stay where asked for", `{"choices":[{"logprobs":{"content":[` + entry + `]}}]}`, `{"choices":[{"logprobs":{"content":[` + entry + `]}}]}`, render.View{
			Logprobs: true,
			Top:      -1,
		}},
		{"alternatives cut", `{"choices":[{"logprobs":{"content":[` + entry + `,` + entry + `],"refusal":null}}]}`,
			strings.ReplaceAll(`{"choices":[{"logprobs":{"content":[`+entry+`,`+entry+`],"refusal":null}}]}`, `, {"token":"]}","logprob":-3}`, ``), render.View{
				Logprobs: true,
				Top:      1,
			}},
		{"no alternatives", `{"choices":[{"logprobs":{"content":[{"top_logprobs":[{"token":"H"}]}]}}]}`, `{"choices":[{"logprobs":{"content":[{"top_logprobs":[]}]}}]}`, render.View{Logprobs: true}},
		{"as many as asked for", `{"choices":[{"logprobs":{"content":[{"top_logprobs":[ 1 ]}]}}]}`, `{"choices":[{"logprobs":{"content":[{"top_logprobs":[ 1 ]}]}}]}`, render.View{
			Logprobs: true,
			Top:      1,
		}},
		{"Completions' logprobs", `{"choices":[{"text":"a","logprobs":{"tokens":["a"]}}]}`, `{"choices":[{"text":"a","logprobs":null}]}`, render.View{}},
		{"numbers that are none", `{"choices":[{"a":NaN,"token_ids":[1],"logprobs":{"content":[{"logprob":-Infinity}]}}]}`, `{"choices":[{"a":NaN,"logprobs":null}]}`, render.View{}},
		{"an object keeps its counts", `{"choices":[],"usage":{"a":1}}`, `{"choices":[],"usage":{"a":1}}`, render.View{}},
		{"what cannot be read", `{"choices":[{"token_ids":[1}]}`, `{"choices":[{"token_ids":[1}]}`, render.View{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, string(tc.view.Of([]byte(tc.in))))

			got := string(tc.view.Of([]byte(": c\r\n\r\nevent: e\r\ndata: " + tc.in + "\r\n\r\ndata: [DONE]\r\n\r\n")))
			if tc.name != "an object keeps its counts" {
				require.Equal(t, ": c\r\n\r\nevent: e\r\ndata: "+tc.want+"\r\n\r\ndata: [DONE]\r\n\r\n", got)
			}

			if tc.view.Usage || !strings.Contains(tc.in, "usage") {
				require.Equal(
					t,
					"data:"+tc.want,
					string(tc.view.Of([]byte("data:"+tc.in))),
					"a last event that nothing ends",
				)
			}
		})
	}
}

func TestViewOfAStream(t *testing.T) {
	t.Parallel()

	want := strings.NewReplacer(
		`,"prompt_token_ids":[1, 2,3]`,
		``,
		`,"token_ids":[10]`,
		``,
		`,"token_ids":[11,12]`,
		``,
		`,"token_ids":null`,
		``,
	).Replace(vllmStream)
	require.Equal(t, want, string(render.View{Logprobs: true, Top: -1, Usage: true}.Of([]byte(vllmStream))))
	before, after, ok := cutAt(want, `data: {"id":"c1","created":7,"model":"m","choices":[],`)
	require.True(t, ok)

	_, after, _ = cutAt(after, "\n\n")
	require.Equal(t, before+after, string(render.View{Logprobs: true, Top: -1}.Of([]byte(vllmStream))))
	require.NotContains(t, string(render.View{}.Of([]byte(vllmStream))), "logprob\"")
}

// A stream made of one object, or of an empty reply, has a usage event only if the reader requested it:
// many readers fail on an event without a choice.
func TestUsageOfAConvertedStream(t *testing.T) {
	t.Parallel()

	for _, api := range []reply.API{reply.Chat, reply.Completions} {
		for _, usage := range []bool{true, false} {
			view := render.View{API: api, Usage: usage}
			for _, v := range []render.View{view, {API: api, Usage: usage, Logprobs: true}} {
				whole, err := v.Assemble(
					[]byte(
						`{"choices":[{"message":{"content":"x"},"text":"x","finish_reason":"stop"}],"usage":{"prompt_tokens":1}}`,
					),
				)
				require.NoError(t, err)
				require.Equal(
					t,
					usage,
					strings.Contains(string(whole.Events()), `"choices":[],"usage"`),
					whole.Events(),
				)
				require.Contains(t, string(whole.JSON()), `"usage":{"prompt_tokens":1}`)
			}

			require.Equal(t, usage, strings.Contains(string(view.Empty("m").Events()), `"choices":[],"usage"`))
		}
	}
}

// A reply assembled for its reader has the same content as its view.
func TestAssembledReplyEqualsItsView(t *testing.T) {
	t.Parallel()

	for _, api := range []reply.API{reply.Chat, reply.Completions, reply.Responses, reply.Messages} {
		for _, view := range []render.View{
			{
				API:   api,
				Usage: true,
			}, {API: api, IDs: true, Usage: true}, {API: api, Logprobs: true, Top: 1, Usage: true},
		} {
			for _, raw := range []string{vllmStream, textStream, wholeText, responseStream(), wholeResponse, messageStream, wholeMessage} {
				taken, err := render.Assemble(api, view.Of([]byte(raw)))
				require.NoError(t, err)
				seen, err := view.Assemble([]byte(raw))
				require.NoError(t, err)
				require.Equal(t, string(taken.JSON()), string(seen.JSON()), "%+v", view)
				require.Equal(t, string(taken.Events()), string(seen.Events()), "%+v", view)
			}
		}
	}
}
