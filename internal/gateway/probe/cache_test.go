package probe_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/gateway/probe"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// An expired report holds until the endpoint has answered another probe: while it is paused, turns are
// exported that depend on the report.
func TestExpiredReportHolds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		raw := rollout.EndpointReport{CaptureLevel: rollout.CaptureTokens, LogprobsMode: rollout.LogprobsRaw}
		undecided := rollout.EndpointReport{CaptureLevel: rollout.CaptureTokens}
		processed := rollout.EndpointReport{
			CaptureLevel: rollout.CaptureTokens,
			LogprobsMode: rollout.LogprobsProcessed,
		}

		var c probe.Cache
		// of returns the report after a probe that takes a time and returns found.
		of := func(takes time.Duration, found rollout.EndpointReport) rollout.EndpointReport {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()

			run := func() rollout.EndpointReport { time.Sleep(takes); return found }

			return c.Of(ctx, "key", run, func(do func()) bool { go do(); return true })
		}
		require.Equal(t, raw, of(0, raw))
		time.Sleep(2 * time.Hour)
		require.Equal(
			t,
			raw,
			of(time.Minute, rollout.EndpointReport{Findings: []string{"not probed"}}),
			"the probe runs",
		)
		require.Equal(t, raw, c.LatestReport("key"))
		time.Sleep(2 * time.Minute)
		require.Equal(t, raw, c.LatestReport("key"), "the endpoint did not answer")
		require.Equal(t, raw, of(0, undecided), "the probe could not determine the mode")
		time.Sleep(2 * time.Hour)
		require.Equal(t, processed, of(0, processed))
		require.Equal(t, processed, c.LatestReport("key"))
	})
}
