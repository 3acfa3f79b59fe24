package rollouts_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/producer"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// The files of tasks are stored separately, and equal sets of files are stored once.
func TestStoreTasks(t *testing.T) {
	t.Parallel()
	rc, _, st := newClient(t)
	in := spec("")
	in.Task.Files = map[string]string{"big.txt": strings.Repeat("x", 3<<20)}
	tasks := func(yield func(rollout.Spec, error) bool) { _ = yield(in, nil) && yield(spec(""), nil) }
	set, err := rc.StoreTasks(t.Context(), tasks)
	require.NoError(t, err)
	require.Equal(t, 2, set.Len)
	got, err := st.Task(t.Context(), rollout.TaskRef{Set: set})
	require.NoError(t, err)
	require.Empty(t, got.Task.Files)
	there, err := st.Exists(t.Context(), got.Task.FilesRef.Key)
	require.NoError(t, err)
	require.True(t, there)
	again, err := rc.StoreTasks(t.Context(), tasks)
	require.NoError(t, err)
	require.Equal(t, set, again)
	_, err = rc.StoreTasks(t.Context(), func(yield func(rollout.Spec, error) bool) {
		_ = yield(spec(""), nil) && yield(rollout.Spec{}, errors.New("broken"))
	})
	require.ErrorContains(t, err, "broken")
}

func TestUnknownProducer(t *testing.T) {
	t.Parallel()
	rc, _, _ := newClient(t)
	_, err := rc.Producer(t.Context(), "none")
	require.True(t, fault.Is(err, fault.NotFound))
	_, err = rc.ProducerOwner(t.Context(), "none")
	require.True(t, fault.Is(err, fault.NotFound))
	_, err = rc.ChangeProducer(t.Context(), "none", producer.Change{Stop: true})
	require.True(t, fault.Is(err, fault.NotFound))
	_, err = rc.AbortProducer(t.Context(), "none", "")
	require.True(t, fault.Is(err, fault.NotFound))
}
