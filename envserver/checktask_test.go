package envserver_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/envserver"
	"github.com/rolloutd/rolloutd/internal/fault"
)

func TestTaskCheck(t *testing.T) {
	t.Parallel()

	check, err := envserver.NewTaskCheck([]string{"opencode", "oracle"}, nil)
	require.NoError(t, err)
	require.NoError(t, check.Check(map[string]any{
		"instruction":     "x",
		"verify":          []string{"true"},
		"limits":          map[string]any{"turns": 5},
		"agent_timeout_s": 5.0,
	}))
	require.NoError(t, check.Check(map[string]any{
		"instruction": "x",
		"template":    "python:3.13",
	}), "the server that runs the task knows its images")

	for want, args := range map[string]map[string]any{
		"limits.turn":     {"instruction": "x", "limits": map[string]any{"turn": 5}},
		"sandbox.backend": {"instruction": "x", "sandbox": map[string]any{"backend": "docker"}},
		"template": {
			"instruction": "x",
			"template":    "python:3.13",
			"sandbox":     map[string]any{"image": "python:3.14"},
		},
		"solution":          {"instruction": "x", "agent": "oracle"},
		"reward_range":      {"instruction": "x", "reward_range": []float64{1, 0}},
		"test_files":        {"instruction": "x", "test_files": map[string]string{"../x": ""}},
		"agent":             {"instruction": "x", "agent": "none"},
		"unsupported value": {"instruction": func() {}},
	} {
		err := check.Check(args)
		require.Error(t, err, want)
		require.Equal(t, fault.Invalid, fault.KindOf(err))

		if want != "unsupported value" {
			require.ErrorContains(t, err, want)
		}
	}
}
