package envserver_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The tool returns the trace in pages. Each turn is unchanged from the store.
func TestTraceTool(t *testing.T) {
	t.Parallel()
	r := start(t)
	r.fake.left = `{"turn":1,"loss_mask":[0,1]}` + "\n" + `{"turn":2,"request":{"a":1.0}}` + "\n" + `{"turn":3}` + "\n"
	c := r.dial("/ws")
	ask := func(id string, more ...any) string {
		args := map[string]any{"rollout_id": id}
		for i := 0; i < len(more); i += 2 {
			args[more[i].(string)] = more[i+1]
		}

		return c.ask(call("get_trace", args))
	}
	c.ask(call("start_rollout", task("r", "x")))
	all := answer(t, ask("r"))
	require.Len(t, all["turns"], 3)
	require.Nil(t, all["next"])
	require.Equal(t, []any{0.0, 1.0}, valueAt(t, all, "turns", 0, "loss_mask"))

	first := answer(t, ask("r", "limit", 2))
	require.Len(t, first["turns"], 2)
	require.EqualValues(t, 2, first["next"])
	last := answer(t, ask("r", "limit", 2, "cursor", 2))
	require.EqualValues(t, 3, valueAt(t, last, "turns", 0, "turn"))
	require.Nil(t, last["next"])
	require.Empty(t, answer(t, ask("r", "cursor", 9))["turns"])

	c.ask(call("start_rollout", task("runs", waits)))

	for id, want := range map[string]string{"runs": "is not done", "none": "no rollout"} {
		require.Contains(t, valueAt(t, object(t, ask(id)), "data", "observation", "error", "message"), want)
	}

	require.Contains(t, ask("r", "limit", 0), "must be 1 to 1000")
}
