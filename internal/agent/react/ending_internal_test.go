package react

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/continuation"
	"github.com/rolloutd/rolloutd/internal/gateway/gatewayapi"
)

// A model has stopped by itself only with a token that is in the list of the sampled ones.
func TestEndingOfAReply(t *testing.T) {
	t.Parallel()

	for choice, want := range map[string]continuation.End{
		`{"finish_reason":"stop"}`:                                        {Last: 7, Stopped: true},
		`{"finish_reason":"stop","stop_reason":null,"matched_stop":null}`: {Last: 7, Stopped: true},
		`{"finish_reason":"stop","matched_stop":7}`:                       {Last: 7, Stopped: true},
		`{"finish_reason":"stop","stop_reason":7}`:                        {Last: 7, Stopped: true},
		`{"finish_reason":"stop","stop_reason":8}`:                        {Last: 7},
		`{"finish_reason":"stop","stop_reason":"END"}`:                    {Last: 7},
		`{"finish_reason":"stop","matched_stop":"END"}`:                   {Last: 7},
		`{"finish_reason":"length"}`:                                      {Last: 7},
		`{"finish_reason":"length","text":"<think>hm"}`:                   {Last: 7, Opens: true},
		`{"finish_reason":"length","text":"hm</think>I"}`:                 {Last: 7, Closes: true},
	} {
		got := endingOf(gatewayapi.Reply{Body: []byte(`{"choices":[` + choice + `]}`)}, []int32{1, 7})
		require.Equal(t, want, got, choice)
	}

	require.Equal(t, continuation.End{}, endingOf(gatewayapi.Reply{Body: []byte(`{}`)}, []int32{7}))
	require.Equal(t, continuation.End{}, endingOf(gatewayapi.Reply{Body: []byte(`{"choices":[{}]}`)}, nil))
}
