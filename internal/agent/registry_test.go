package agent_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/agent"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

func TestRegistry(t *testing.T) {
	t.Parallel()

	r, err := agent.NewRegistry(agent.Kind{Name: "one", LogPath: "/x"}, agent.Kind{Name: "two"})
	require.NoError(t, err)
	require.Equal(t, []string{"one", "two"}, r.Names())
	one, err := r.Get("one")
	require.NoError(t, err)
	require.Equal(t, "/x", one.LogPath)

	two, err := r.Get("two")
	require.NoError(t, err)
	require.Equal(t, rollout.AgentLogDir+"/two.jsonl", two.LogPath)
	require.NotEmpty(t, two.OutputBlob)
	require.Equal(
		t,
		"{\"a\":1}\n",
		string(two.Log(rollout.Transcript{Messages: agent.OutputMessages([]byte(`{"a": 1}`))})),
	)

	_, err = r.Get("three")
	require.True(t, fault.Is(err, fault.NotFound))
	require.ErrorContains(t, err, `unknown agent "three": must be one of one, two`)
	_, err = agent.NewRegistry(agent.Kind{Name: "one"}, agent.Kind{Name: "one"})
	require.ErrorContains(t, err, "defined twice")
}
