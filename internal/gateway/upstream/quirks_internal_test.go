package upstream

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// The quirks of at most maxQuirks endpoints are kept. Detecting the quirks of a forgotten endpoint again
// costs a request.
func TestQuirksAreBounded(t *testing.T) {
	t.Parallel()

	m := &endpointQuirks{}

	for i := range 10_000 {
		place := strconv.Itoa(i)
		m.learn(place, []quirk{noStreamOptions})
		m.learn(place, []quirk{noLogprobs})
		m.learn(place, nil)
		require.Len(t, m.of(place), 2, "what was just learnt is never forgotten for another")
	}

	require.Len(t, m.byEndpoint, 1024)
}
