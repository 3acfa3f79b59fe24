package trajectory_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/trajectory"
	"github.com/rolloutd/rolloutd/internal/trajectory/sequence"
)

// A reason not to train on a rollout also applies to the turns of its subagents, and to summaries.
func TestApartTurnsOfUnfitRollouts(t *testing.T) {
	t.Parallel()

	for name, c := range map[string]struct {
		unfit   string
		eval    bool
		trained int
	}{
		"fit": {trained: 4}, "raw log probabilities": {unfit: "raw"}, "evaluation": {eval: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := openLog(t)

			for n, kind := range []rollout.TurnKind{rollout.KindSubagent, rollout.KindSummary} {
				r := turnRecord(n+1, string(kind))
				r.Kind, r.Lineage, r.Eval = kind, "ses_1/"+string(kind), c.eval
				require.NoError(t, l.Append(r))
				require.NoError(t, l.Delivered(n+1))
			}

			var lines bytes.Buffer
			require.NoError(t, trajectory.Export(l, &lines, trajectory.ExportOptions{Unfit: c.unfit}))
			got, err := sequence.Read(&lines, sequence.Choice{
				Subagents: sequence.SeparateSubagents, Summaries: sequence.TrainSummaries,
			})
			require.NoError(t, err)
			require.Equal(t, c.trained, got.Trained())
		})
	}
}
