package reply_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/gateway/dialect/reply"
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
