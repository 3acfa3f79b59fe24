package rollout_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

func TestMainReward(t *testing.T) {
	t.Parallel()

	two, one := map[string]float64{"accuracy": 1, "speed": 4}, map[string]float64{"accuracy": 1}

	for _, c := range []struct {
		key  string
		all  map[string]float64
		want string
	}{
		{"", one, "accuracy"},
		{"", two, ""},
		{"", map[string]float64{"reward": 0, "speed": 4}, "reward"},
		{"", nil, ""},
		{"speed", two, "speed"},
		{"speed", one, ""},
		{"grace, speed,accuracy", two, "speed"},
		{"a,b", map[string]float64{"a": 1, "a,b": 2}, "a,b"},
		{",", two, ""},
	} {
		name, ok := rollout.Verifier{RewardKey: c.key}.MainReward(c.all)
		require.Equal(t, c.want, name, c.key)
		require.Equal(t, c.want != "", ok, c.key)
	}
}
