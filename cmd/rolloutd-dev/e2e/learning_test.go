package e2e

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/testkit/pyclient"
)

// A policy learns from rollouts: a short form of `make learn`. `deploy/suite.sh learn` runs the test.
func TestPolicyLearns(t *testing.T) {
	if os.Getenv("ROLLOUTD_TEST_LEARN") == "" {
		t.Skip("set ROLLOUTD_TEST_LEARN=1, as deploy/suite.sh learn does")
	}

	const steps, portOffset = 30, 20_000

	folder := t.TempDir()
	example := filepath.Join(pyclient.PackageDir(t), "..", "..", "examples", "learning", "learn.py")
	learn := pyclient.Interpreter(t, pyclient.Torch()).WithPackage(t).Command(
		t, example, "--folder", folder, "--programs", bin,
		"--steps", strconv.Itoa(steps), "--lr", "7e-4", "--port-offset", strconv.Itoa(portOffset),
	)
	// rolloutd-dev refuses variables that it does not know
	learn.Env = slices.DeleteFunc(learn.Env, func(v string) bool { return strings.HasPrefix(v, "ROLLOUTD_TEST_") })
	learn.Cancel = func() error { return learn.Process.Signal(syscall.SIGTERM) }
	learn.WaitDelay = time.Minute

	out, err := learn.CombinedOutput()
	require.NoErrorf(t, err, "%s", out)
	require.Empty(t, instance{data: filepath.Join(folder, "data")}.sandboxes(t), "what was in flight has ended")

	curve := curveOf(t, folder)
	require.Len(t, curve, steps)

	for _, step := range curve {
		require.Equal(t, step.Rollouts, step.Sequences, "step %d: each rollout is one sequence", step.Step)
		require.Less(t, step.LargestDifference, 1e-3, "step %d: the engine's log probabilities are the trainer's", step.Step)
		require.Equal(t, []string{"step-" + strconv.Itoa(step.Step-1)}, step.Versions)
	}

	begin, end := curve[:8], curve[steps-12:]
	require.InDelta(t, 0.35, meanReward(begin), 0.2, "the warm-up ends where the policy begins to copy the digit")

	rise := meanReward(end) - meanReward(begin)
	deviation := math.Sqrt(errorOf(begin) + errorOf(end))
	t.Logf("the mean reward rises from %.3f by %.3f, %.1f standard errors", meanReward(begin), rise, rise/deviation)
	require.Greater(t, rise, 3*deviation)
}

// learningStep is a line of curve.json of the example.
type learningStep struct {
	Step              int      `json:"step"`
	Reward            float64  `json:"reward"`
	Rollouts          int      `json:"rollouts"`
	Sequences         int      `json:"sequences"`
	LargestDifference float64  `json:"largest_difference"`
	Versions          []string `json:"versions"`
}

func curveOf(t *testing.T, folder string) []learningStep {
	t.Helper()

	text, err := os.ReadFile(filepath.Join(folder, "curve.json"))
	require.NoError(t, err)

	var curve []learningStep
	require.NoError(t, json.Unmarshal(text, &curve))

	return curve
}

func meanReward(steps []learningStep) float64 {
	sum := 0.0
	for _, step := range steps {
		sum += step.Reward
	}

	return sum / float64(len(steps))
}

// errorOf is the squared standard error of the mean reward, where rewards are 0 or 1.
func errorOf(steps []learningStep) float64 {
	rollouts := 0
	for _, step := range steps {
		rollouts += step.Rollouts
	}

	mean := meanReward(steps)

	return mean * (1 - mean) / float64(rollouts)
}
