package executor_test

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/envserver/internal/access"
	"github.com/rolloutd/rolloutd/envserver/internal/executor"
	"github.com/rolloutd/rolloutd/internal/episode"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// trajectories is a fake engine that has the rollouts of all trajectories, and keeps their releases.
type trajectories struct {
	access.Episodes

	// by the end of the rollout's id
	ended map[string]bool
	calls []string
	kept  map[string][]byte
}

func endOf(id string) string { return id[strings.LastIndex(id, "-"):] }

// startedTrajectories are their rollouts.
type startedTrajectories struct{ access.Rollouts }

func (startedTrajectories) State(_ context.Context, id string) (rollout.State, error) {
	if !strings.HasPrefix(id, "trajectory-") {
		return rollout.State{}, fault.New(fault.NotFound, "no rollout %q", id)
	}

	return rollout.State{ID: id}, nil
}

func (e *trajectories) Call(_ context.Context, id string, _ episode.Call) (episode.Answer, error) {
	e.calls = append(e.calls, endOf(id))
	return episode.Answer{}, e.over(id)
}

func (e *trajectories) List(
	_ context.Context,
	id, _ string,
	_ bool,
	_ int,
) (entries []episode.Entry, more bool, err error) {
	e.calls = append(e.calls, endOf(id))
	return nil, false, e.over(id)
}

func (e *trajectories) Submit(_ context.Context, id string, _ episode.Call) error {
	err := e.over(id)
	e.ended[endOf(id)] = true

	return err
}

func (e *trajectories) over(id string) error {
	if e.ended[endOf(id)] {
		return fault.New(fault.Conflict, "the episode has ended")
	}

	return nil
}

func (e *trajectories) Load(_ context.Context, key string) ([]byte, error) {
	if data, ok := e.kept[key]; ok {
		return data, nil
	}

	return nil, fault.New(fault.NotFound, "nothing under %s", key)
}

func (e *trajectories) Save(_ context.Context, key string, data []byte) error {
	e.kept[key] = data
	return nil
}

func (e *trajectories) Delete(context.Context, string) error { return nil }

// A trajectory that one replica has released begins anew on all of them.
func TestReleaseThroughAnotherReplica(t *testing.T) {
	t.Parallel()

	engine := &trajectories{ended: map[string]bool{}, kept: map[string][]byte{}}
	first := &executor.API{Episodes: engine, Rollouts: startedTrajectories{}, Keeper: engine}
	second := &executor.API{Episodes: engine, Rollouts: startedTrajectories{}, Keeper: engine}
	a, b := post(t, first), post(t, second)

	of := map[string]any{"trajectory_id": "t"}
	call := map[string]any{"trajectory_id": "t", "tool": map[string]any{"name": "bash", "uniq_id": 1}}

	require.Contains(t, a("execute", call), `"success":true`)
	require.Contains(t, b("release", of), "ok")
	require.Contains(t, a("execute", call), `"success":true`)
	require.Contains(t, b("execute", call), `"success":true`)
	require.Equal(t, []string{"-0", "-0", "-1", "-1"}, engine.calls)

	require.Contains(t, b("release", of), "ok")
	require.Contains(t, a("artifacts/list", of), `"success":true`)
	require.Contains(t, b("execute", call), `"success":true`)
	require.Contains(t, b("release", of), "ok")
	require.Contains(t, b("execute", call), `"success":true`)
	require.Contains(t, a("release", of), "ok")
	require.Equal(t, []string{"-0", "-1", "-2", "-3"}, slices.Sorted(maps.Keys(engine.ended)), "the latest was ended")

	require.Zero(t, first.Generations()+second.Generations(), "the keeper has them")
}

// failing is a fake engine whose calls fail.
type failing struct {
	access.Episodes
	err error
}

func (f failing) Call(context.Context, string, episode.Call) (episode.Answer, error) {
	return episode.Answer{}, f.err
}

// A client that scores must not take a failure of the infrastructure for a command that failed.
func TestFailureOfTheInfrastructureHasItsKind(t *testing.T) {
	t.Parallel()

	call := map[string]any{"trajectory_id": "t", "tool": map[string]any{"name": "bash", "uniq_id": "u"}}

	for _, kind := range []fault.Kind{fault.SandboxLost, fault.ToolServerFailed, fault.Timeout} {
		execute := post(t, &executor.API{
			Episodes: failing{err: fault.New(kind, "no answer")}, Rollouts: startedTrajectories{},
		})

		require.JSONEq(t,
			`{"success":false,"output":"","error":"no answer","metadata":{"fault":"`+string(kind)+`"},"uniq_id":"u"}`,
			execute("execute", call))
	}
}
