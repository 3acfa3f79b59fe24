package react

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/gateway/gatewayapi"
)

// A model has stopped by itself only with a token that is in the list of the sampled ones.
func TestEndingOfAReply(t *testing.T) {
	t.Parallel()

	for choice, want := range map[string]ending{
		`{"finish_reason":"stop"}`:                                        {7, true},
		`{"finish_reason":"stop","stop_reason":null,"matched_stop":null}`: {7, true},
		`{"finish_reason":"stop","matched_stop":7}`:                       {7, true},
		`{"finish_reason":"stop","stop_reason":7}`:                        {7, true},
		`{"finish_reason":"stop","stop_reason":8}`:                        {7, false},
		`{"finish_reason":"stop","stop_reason":"END"}`:                    {7, false},
		`{"finish_reason":"stop","matched_stop":"END"}`:                   {7, false},
		`{"finish_reason":"length"}`:                                      {7, false},
	} {
		got := endingOf(gatewayapi.Reply{Body: []byte(`{"choices":[` + choice + `]}`)}, []int32{1, 7})
		require.Equal(t, want, got, choice)
	}

	require.Equal(t, ending{}, endingOf(gatewayapi.Reply{Body: []byte(`{}`)}, []int32{7}))
	require.Equal(t, ending{}, endingOf(gatewayapi.Reply{Body: []byte(`{"choices":[{}]}`)}, nil))
}
