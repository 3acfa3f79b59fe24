package reply_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/gateway/dialect/reply"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// The versions that an engine gives by spans of tokens count, wherever it writes them.
func TestVersionsOfSpans(t *testing.T) {
	t.Parallel()

	const spans = `[{"version":"1","start":0,"end":4},{"version":"2","start":4,"end":9}]`
	for name, object := range map[string]string{
		"vLLM's choice":     `{"choices":[{"index":0,"finish_reason":"stop","weight_versions":` + spans + `}]}`,
		"SGLang's choice":   `{"choices":[{"index":0,"finish_reason":"stop","meta_info":{"weight_versions":` + spans + `}}]}`,
		"SGLang's reply":    `{"choices":[{"index":0,"finish_reason":"stop"}],"metadata":{"weight_versions":` + spans + `}}`,
		"over the last one": `{"weight_version":"2","choices":[{"index":0,"finish_reason":"stop","weight_versions":` + spans + `}]}`,
	} {
		r := reply.Reply{API: reply.Chat}
		require.NoError(t, r.Event([]byte(object)), name)
		r.Finish()
		require.Equal(t, "1..2", r.ModelVersion, name)
	}
}

// The spans are kept if there are several, and they are those of all sampled tokens.
func TestSpansOfVersions(t *testing.T) {
	t.Parallel()

	for spans, kept := range map[string]bool{
		`[{"version":"1","start":0,"end":2},{"version":"2","start":2,"end":3}]`:     true,
		`[{"version":"1","start":0,"end":3}]`:                                       false,
		`[{"version":"1","start":0,"end":2},{"version":"2","start":2,"end":4}]`:     false,
		`[{"version":"1","start":0,"end":2},{"version":"2","start":1,"end":3}]`:     false,
		`[{"version":"1","start":0,"end":"x"},{"version":"2","start":0,"end":3},7]`: false,
		`null`: false,
	} {
		r := reply.Reply{API: reply.Chat}
		require.NoError(t, r.Event([]byte(
			`{"choices":[{"index":0,"finish_reason":"stop","token_ids":[1,2,3],"weight_versions":`+spans+`}]}`)), spans)
		r.Finish()

		if kept {
			require.Equal(t, []rollout.VersionSpan{{Version: "1", Stop: 2}, {Version: "2", Start: 2, Stop: 3}}, r.Versions)
		} else {
			require.Empty(t, r.Versions, spans)
		}
	}
}
