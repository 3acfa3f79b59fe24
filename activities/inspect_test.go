package activities_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/activities"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/gateway/gatewayapi"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// A rollout waits for the probe of its endpoint, and fails because of its findings, only if training is required.
func TestStartProxyProbesTheEndpoint(t *testing.T) {
	t.Parallel()

	away := fault.New(fault.Unavailable, "no gateway")
	for name, tc := range map[string]struct {
		purpose rollout.Purpose
		mode    rollout.Mode
		report  rollout.EndpointReport
		err     error
		waits   []time.Duration
		refused bool
	}{
		"train": {
			purpose: rollout.PurposeTrain,
			report:  rollout.EndpointReport{CaptureLevel: "tokens"},
			waits:   []time.Duration{gatewayapi.InspectTime},
		},
		"train, raw": {
			purpose: rollout.PurposeTrain,
			report:  rollout.EndpointReport{CaptureLevel: "logprobs", LogprobsMode: "raw"},
			waits:   []time.Duration{gatewayapi.InspectTime},
			refused: true,
		},
		"train, nothing is known": {purpose: rollout.PurposeTrain, waits: []time.Duration{gatewayapi.InspectTime}},
		"train, no gateway": {
			purpose: rollout.PurposeTrain,
			err:     away,
			waits:   []time.Duration{gatewayapi.InspectTime},
		},
		"auto, raw": {
			report: rollout.EndpointReport{CaptureLevel: "logprobs", LogprobsMode: "raw"},
			waits:  []time.Duration{0},
		},
		"eval":      {purpose: rollout.PurposeEval},
		"black box": {mode: rollout.BlackBox},
	} {
		h := newHost(t)
		h.sandbox(t)
		h.gate.status.Attached, h.gate.report, h.gate.inspectErr = true, tc.report, tc.err

		in := activities.ProxyInput{
			Target: target(),
			Agent:  "opencode",
			Mode:   rollout.TransparentProxy,
			Model:  rollout.Model{Name: "m", TokenIDs: true, Logprobs: true, Purpose: tc.purpose},
		}
		if tc.mode != "" {
			in.Mode = tc.mode
		}

		err := h.StartProxy(t.Context(), in)
		require.Equal(t, tc.waits, h.gate.inspected, name)

		if tc.refused {
			require.Equal(t, fault.UpstreamRefused, fault.KindOf(err), name)
			continue
		}

		require.NoError(t, err, name)
	}
}

// The endpoint of an agent without model calls is not probed, because it may not exist and the rollout
// would wait for it.
func TestEndpointWithoutCallsIsNotProbed(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.sandbox(t)
	h.gate.status.Attached = true
	require.NoError(t, h.StartProxy(t.Context(), activities.ProxyInput{
		Target: target(),
		Agent:  rollout.AgentNop,
		Mode:   rollout.TransparentProxy,
		Model:  rollout.Model{Name: "m", TokenIDs: true, Logprobs: true},
	}))

	in := collectInput(nil)
	in.Agent = rollout.AgentNop
	_, err := h.CollectArtifacts(t.Context(), in)
	require.NoError(t, err)
	require.Empty(t, h.gate.inspected)
}

// The result has the report of the probe. Raw log probabilities may lower the capture level.
func TestResultHasTheReportOnTheEndpoint(t *testing.T) {
	t.Parallel()

	const tokens = `{"turn":1,"kind":"agent","prompt_token_ids":[1],"completion_token_ids":[2],"per_token_logps":[-0.1],"param_fixes":["dropped min_p"],"upstream_status":200}`

	yes := true
	for name, tc := range map[string]struct {
		report rollout.EndpointReport
		level  rollout.CaptureLevel
		kind   rollout.RolloutType
	}{
		"nothing is known": {rollout.EndpointReport{}, rollout.CaptureTokens, rollout.TypeTrain},
		"processed": {rollout.EndpointReport{
			CaptureLevel: "tokens",
			LogprobsMode: "processed",
			ToolSupport:  &yes,
			ParamFixes:   []string{"dropped top_k", "dropped min_p"},
		},
			rollout.CaptureTokens, rollout.TypeTrain},
		"raw": {rollout.EndpointReport{
			CaptureLevel: "logprobs",
			LogprobsMode: "raw",
			Findings:     []string{"[WARN] raw_logprobs: x"},
		}, rollout.CaptureLogprobs, rollout.TypeEval},
		"raw, and exact": {rollout.EndpointReport{
			CaptureLevel: "tokens",
			LogprobsMode: "raw",
		}, rollout.CaptureTokens, rollout.TypeTrain},
	} {
		h := newHost(t)
		h.sandbox(t)
		h.gate.trace, h.gate.report = tokens, tc.report
		_, err := h.CollectArtifacts(t.Context(), collectInput(nil))
		require.NoError(t, err, name)
		got := h.result(t)
		require.Equal(t, tc.level, got.CaptureLevel, name)
		require.Equal(t, tc.kind, got.RolloutType, name)
		require.Equal(t, tc.report.LogprobsMode, got.LogprobsMode)
		require.Equal(t, tc.report.ToolSupport, got.ToolSupport)
		require.Equal(t, tc.report.Findings, got.Findings)
		require.ElementsMatch(
			t,
			append([]string{"dropped min_p"}, tc.report.ParamFixes[:min(1, len(tc.report.ParamFixes))]...),
			got.ParamFixes,
		)
	}
}
