package rollout_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

func TestMask(t *testing.T) {
	t.Parallel()

	for text, want := range map[string]rollout.Mask{
		"[0,1,1]": {0, 1, 1}, "[]": {}, "null": {}, " [ 1 ,\n\t0 ] ": {1, 0}, "[1]": {1},
	} {
		var m rollout.Mask
		require.NoError(t, json.Unmarshal([]byte(text), &m), text)
		require.Equal(t, want, m, text)
	}

	data, err := json.Marshal(rollout.NewMask(2, 3, true))
	require.NoError(t, err)
	require.Equal(t, "[0,0,1,1,1]", string(data))

	for _, text := range []string{`"01"`, "1", "[11]", "[-1]", "[1.0]", "[1e0]", "[2]", "[[0]]", "{}", "[true]", "[null]"} {
		var m rollout.Mask
		require.Error(t, json.Unmarshal([]byte(text), &m), text)
	}
}

func BenchmarkMask(b *testing.B) {
	data, err := json.Marshal(rollout.NewMask(6000, 100, true))
	require.NoError(b, err)

	for b.Loop() {
		var m rollout.Mask
		require.NoError(b, json.Unmarshal(data, &m))
	}
}
