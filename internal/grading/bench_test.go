package grading_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/driver"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandbox"
)

// BenchmarkPlace measures what the place of the work costs: the start of a verifier's sandbox beside that
// of an agent's, and ten starts of a program of the work beside ten of the verifier's, each in turn.
func BenchmarkPlace(b *testing.B) {
	a := newAttacked(b)

	var agent, verifier, tools, works []time.Duration

	b.ResetTimer()

	for i := range b.N {
		agent = append(agent, measureCreate(b, a, fmt.Sprintf("agent-%d-%d.1", b.N, i), driver.PurposeAgent))
		id := fmt.Sprintf("verifier-%d-%d", b.N, i)
		verifier = append(verifier, measureCreate(b, a, id+".1", driver.PurposeVerifier))

		a.agent(b, id+"-work", cheat{hello: "print('Hello')"})
		record := a.grade(b, id+"-work", 0, style{verifier: rollout.Verifier{Commands: []string{
			"for i in $(seq 10); do /bin/cat /dev/null; done",
			"for i in $(seq 10); do run-as-agent cat /dev/null; done",
		}}}, time.Minute)
		tools = append(tools, seconds(record.Commands[0]))
		works = append(works, seconds(record.Commands[1]))
	}

	for name, all := range map[string][]time.Duration{
		"agent-create": agent, "verifier-create": verifier, "10-tools": tools, "10-programs-of-the-work": works,
	} {
		slices.Sort(all)
		b.ReportMetric(float64(all[len(all)/2].Microseconds())/1000, name+"-p50-ms")
	}
}

func seconds(c rollout.CommandResult) time.Duration {
	return time.Duration(c.DurationS * float64(time.Second))
}

// measureCreate measures a sandbox from the start of its creation to the end of its first process.
func measureCreate(b *testing.B, a *attacked, id, purpose string) time.Duration {
	b.Helper()

	start := time.Now()
	sb, _, err := a.create(b.Context(), id, purpose)
	require.NoError(b, err)
	_, err = sandbox.RunCommand(
		b.Context(),
		sb,
		"first",
		sandbox.BashCommand("-c", "true"),
		&sandbox.CommandBudget{Total: time.Minute},
	)
	require.NoError(b, err)

	took := time.Since(start)

	require.NoError(b, a.backend.Destroy(b.Context(), id))

	return took
}
