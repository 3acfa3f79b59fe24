package trajectory_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/trajectory"
	"github.com/rolloutd/rolloutd/internal/trajectory/sequence"
)

// A reason not to train on a rollout also applies to the turns of its subagents.
func TestSubagentsOfUnfitRollouts(t *testing.T) {
	t.Parallel()

	for name, c := range map[string]struct {
		unfit   string
		eval    bool
		trained int
	}{
		"fit": {trained: 2}, "raw log probabilities": {unfit: "raw"}, "evaluation": {eval: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := openLog(t)
			r := turnRecord(1, "a")
			r.Kind, r.Lineage, r.Eval = rollout.KindSubagent, "ses_1/ses_2", c.eval
			require.NoError(t, l.Append(r))
			require.NoError(t, l.Delivered(1))

			var lines bytes.Buffer
			require.NoError(t, trajectory.Export(l, &lines, c.unfit, nil))
			got, err := sequence.Read(&lines, sequence.SeparateSubagents)
			require.NoError(t, err)
			require.Equal(t, c.trained, got.Trained())
		})
	}
}
