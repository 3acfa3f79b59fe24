package activities_test

import (
	"context"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/activities"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// oneGroup has a finished group of alice under every id.
type oneGroup struct{}

func (oneGroup) Group(_ context.Context, id string) (rollout.GroupState, error) {
	return rollout.GroupState{ID: id, Owner: "alice", Outcome: rollout.GroupComplete}, nil
}

// A group of another client under the id of a producer's group is lost to the producer: its rewards are not
// those of the producer's tasks.
func TestGroupOfAnotherOwnerIsLost(t *testing.T) {
	t.Parallel()

	acts := activities.New(activities.Options{Groups: oneGroup{}, Logger: slog.New(slog.DiscardHandler)})
	for owner, lost := range map[string]bool{"alice": false, "bob": true, "": false} {
		reports, err := acts.GroupReports(t.Context(), activities.LookInput{GroupIDs: []string{"p-1"}, Owner: owner})
		require.NoError(t, err)
		require.Len(t, reports, 1)
		require.Equal(t, lost, reports[0].Lost, owner)
	}
}
