package store_test

import (
	"fmt"
	"iter"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/store"
)

func specs(n int) iter.Seq2[rollout.Spec, error] {
	return func(yield func(rollout.Spec, error) bool) {
		for i := range n {
			if !yield(rollout.Spec{Task: rollout.Task{
				ID:          fmt.Sprint("t", i),
				Instruction: strings.Repeat("é", i),
			}}, nil) {
				return
			}
		}
	}
}

func TestTaskSets(t *testing.T) {
	t.Parallel()
	s, err := store.Open(t.Context(), t.TempDir())
	require.NoError(t, err)

	defer s.Close()

	set, err := s.PutTasks(t.Context(), specs(100))
	require.NoError(t, err)
	require.Equal(t, 100, set.Len)

	for _, i := range []int{0, 1, 50, 99} {
		spec, err := s.Task(t.Context(), rollout.TaskRef{Set: set, Index: i})
		require.NoError(t, err)
		require.Equal(t, rollout.Task{ID: fmt.Sprint("t", i), Instruction: strings.Repeat("é", i)}, spec.Task)
	}

	again, err := s.PutTasks(t.Context(), specs(100))
	require.NoError(t, err)
	require.Equal(t, set, again, "equal sets are one")

	for _, ref := range []rollout.TaskRef{
		{
			Set:   set,
			Index: 100,
		}, {
			Set:   set,
			Index: -1,
		}, {Set: rollout.SetRef{
			Key: "rollouts/x",
			Len: 3,
		}}, {Set: rollout.SetRef{Key: set.Key, Len: 1 << 30}, Index: 1 << 20},
	} {
		_, err := s.Task(t.Context(), ref)
		require.True(t, fault.Is(err, fault.Invalid), "%v: %v", ref, err)
	}

	_, err = s.Task(t.Context(), rollout.TaskRef{Set: rollout.SetRef{
		Key: rollout.SetKey(strings.Repeat("0", 64)),
		Len: 1,
	}})
	require.True(t, fault.Is(err, fault.NotFound))
}
