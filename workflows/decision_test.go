package workflows_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/activities"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/workflows"
)

// The table defines the priority of causes when several of them apply.
func TestDecide(t *testing.T) {
	t.Parallel()

	agent := func(o rollout.Outcome) *activities.AgentResult {
		return &activities.AgentResult{Outcome: o, Error: "agent"}
	}

	err := func(k fault.Kind) error { return fault.New(k, "step") }
	for name, c := range map[string]struct {
		f       workflows.Finding
		outcome rollout.Outcome
		kind    fault.Kind
		text    string
		retry   bool
	}{
		"all well": {
			f:       workflows.Finding{Agent: agent(rollout.Completed)},
			outcome: rollout.Completed,
			text:    "agent",
		},
		"agent failed": {
			f:       workflows.Finding{Agent: agent(rollout.AgentFailed)},
			outcome: rollout.AgentFailed,
			kind:    fault.AgentFailed,
			text:    "agent",
		},
		"agent timeout": {
			f:       workflows.Finding{Agent: agent(rollout.AgentTimeout)},
			outcome: rollout.AgentTimeout,
			text:    "agent",
		},
		"budget spent": {
			f:       workflows.Finding{Agent: agent(rollout.BudgetExhausted)},
			outcome: rollout.BudgetExhausted,
			text:    "agent",
		},
		"route ended": {
			f:       workflows.Finding{Agent: agent(rollout.Aborted)},
			outcome: rollout.Aborted,
			kind:    fault.Aborted,
			text:    "agent",
		},
		"sandbox lost": {
			f:       workflows.Finding{Phase: rollout.PhaseAgent, Err: err(fault.SandboxLost)},
			outcome: rollout.InfraFailed,
			kind:    fault.SandboxLost,
			text:    "running_agent: step",
		},
		"upstream fails": {
			f:       workflows.Finding{Phase: rollout.PhaseAgent, Err: err(fault.UpstreamFailed), Another: true},
			outcome: rollout.InfraFailed,
			kind:    fault.UpstreamFailed,
			text:    "running_agent: step",
			retry:   true,
		},
		"upstream refuses": {
			f:       workflows.Finding{Phase: rollout.PhaseAgent, Err: err(fault.UpstreamRefused), Another: true},
			outcome: rollout.InfraFailed,
			kind:    fault.UpstreamRefused,
			text:    "running_agent: step",
		},
		"no room": {
			f:       workflows.Finding{Phase: rollout.PhaseQueued, Err: err(fault.Exhausted), Another: true},
			outcome: rollout.InfraFailed,
			kind:    fault.Exhausted,
			text:    "queued: step",
		},
		"agent that never spoke is not graded": {
			f:       workflows.Finding{Phase: rollout.PhaseAgent, Err: err(fault.AgentFailed), Another: true},
			outcome: rollout.InfraFailed,
			kind:    fault.AgentFailed,
			text:    "running_agent: step",
			retry:   true,
		},
		"setup command fails": {
			f:       workflows.Finding{Phase: rollout.PhaseSetup, Err: err(fault.SetupFailed), Another: true},
			outcome: rollout.SetupFailed,
			kind:    fault.SetupFailed,
			text:    "step",
		},
		"MCP server does not start": {
			f:       workflows.Finding{Phase: rollout.PhaseAgent, Err: err(fault.SetupFailed), Another: true},
			outcome: rollout.SetupFailed,
			kind:    fault.SetupFailed,
			text:    "step",
		},
		"MCP server does not start in what the agent left": {
			f:       workflows.Finding{Phase: rollout.PhaseAgent, Err: err(fault.SetupFailed), Another: true, Later: true},
			outcome: rollout.AgentFailed,
			kind:    fault.AgentFailed,
			text:    "step",
		},
		"the agent's program is not installed over what the agent left": {
			f:       workflows.Finding{Phase: rollout.PhaseInstalling, Err: err(fault.Invalid), Another: true, Later: true},
			outcome: rollout.AgentFailed,
			kind:    fault.AgentFailed,
			text:    "step",
		},
		"no workdir in what the agent left": {
			f:       workflows.Finding{Phase: rollout.PhaseAgent, Err: err(fault.Invalid), Another: true, Later: true},
			outcome: rollout.AgentFailed,
			kind:    fault.AgentFailed,
			text:    "step",
		},
		"the agent does not start in what the agent left": {
			f:       workflows.Finding{Phase: rollout.PhaseAgent, Err: err(fault.AgentFailed), Another: true, Later: true},
			outcome: rollout.InfraFailed,
			kind:    fault.AgentFailed,
			text:    "running_agent: step",
			retry:   true,
		},
		"the agent does not start there in the last attempt": {
			f:       workflows.Finding{Phase: rollout.PhaseAgent, Err: err(fault.AgentFailed), Later: true},
			outcome: rollout.AgentFailed,
			kind:    fault.AgentFailed,
			text:    "step",
		},
		"the host of a later step lacks the agent": {
			f:       workflows.Finding{Phase: rollout.PhaseInstalling, Err: err(fault.NotFound), Another: true, Later: true},
			outcome: rollout.InfraFailed,
			kind:    fault.NotFound,
			text:    "installing_agent: step",
			retry:   true,
		},
		"no host of a later step has the agent": {
			f:       workflows.Finding{Phase: rollout.PhaseInstalling, Err: err(fault.NotFound), Later: true},
			outcome: rollout.InfraFailed,
			kind:    fault.NotFound,
			text:    "installing_agent: step",
		},
		"a later step loses its sandbox": {
			f:       workflows.Finding{Phase: rollout.PhaseAgent, Err: err(fault.SandboxLost), Later: true},
			outcome: rollout.InfraFailed,
			kind:    fault.SandboxLost,
			text:    "running_agent: step",
		},
		"sandbox dies in setup": {
			f:       workflows.Finding{Phase: rollout.PhaseSetup, Err: err(fault.SandboxLost), Another: true},
			outcome: rollout.InfraFailed,
			kind:    fault.SandboxLost,
			text:    "setup: step",
			retry:   true,
		},
		"no reward": {
			f: workflows.Finding{
				Agent:   agent(rollout.Completed),
				Phase:   rollout.PhaseVerifying,
				Err:     err(fault.VerifierFailed),
				Another: true,
			},
			outcome: rollout.VerifierFailed,
			kind:    fault.VerifierFailed,
			text:    "step",
		},
		"workspace too large to grade": {
			f: workflows.Finding{
				Agent:   agent(rollout.Completed),
				Phase:   rollout.PhaseVerifying,
				Err:     err(fault.OutOfDisk),
				Another: true,
			},
			outcome: rollout.VerifierFailed,
			kind:    fault.OutOfDisk,
			text:    "step",
		},
		"verifier's sandbox lost": {
			f: workflows.Finding{
				Agent:   agent(rollout.Completed),
				Phase:   rollout.PhaseVerifying,
				Err:     err(fault.SandboxLost),
				Another: true,
			},
			outcome: rollout.InfraFailed,
			kind:    fault.SandboxLost,
			text:    "verifying: step",
			retry:   true,
		},
		"no room for grading": {
			f: workflows.Finding{
				Agent:   agent(rollout.Completed),
				Phase:   rollout.PhaseVerifying,
				Err:     err(fault.Exhausted),
				Another: true,
			},
			outcome: rollout.InfraFailed,
			kind:    fault.Exhausted,
			text:    "verifying: step",
			retry:   true,
		},
		"artifacts lost": {
			f:       workflows.Finding{Agent: agent(rollout.Completed), Lost: err(fault.NotFound), Another: true},
			outcome: rollout.InfraFailed,
			kind:    fault.NotFound,
			text:    "collect: step",
			retry:   true,
		},
		"artifacts lost at the bound": {
			f:       workflows.Finding{Agent: agent(rollout.Completed), Lost: err(fault.NotFound)},
			outcome: rollout.InfraFailed,
			kind:    fault.NotFound,
			text:    "collect: step",
		},
		"artifacts of a failed setup lost": {
			f: workflows.Finding{
				Phase:   rollout.PhaseSetup,
				Err:     err(fault.SetupFailed),
				Lost:    err(fault.NotFound),
				Another: true,
			},
			outcome: rollout.SetupFailed,
			kind:    fault.SetupFailed,
			text:    "step",
		},
		"aborted beats all": {
			f: workflows.Finding{
				Aborted: true,
				Overdue: true,
				Phase:   rollout.PhaseAgent,
				Err:     err(fault.SandboxLost),
				Agent:   agent(rollout.Completed),
				Lost:    err(fault.NotFound),
				Another: true,
			},
			outcome: rollout.Aborted,
			kind:    fault.Aborted,
			text:    "cause",
		},
		"aborted before anything": {
			f:       workflows.Finding{Aborted: true},
			outcome: rollout.Aborted,
			kind:    fault.Aborted,
			text:    "cause",
		},
		"overdue beats the agent": {
			f:       workflows.Finding{Overdue: true, Agent: agent(rollout.Aborted), Another: true},
			outcome: rollout.InfraFailed,
			kind:    fault.Timeout,
			text:    "cause",
		},
		"overdue beats a step": {
			f: workflows.Finding{
				Overdue: true,
				Phase:   rollout.PhaseSetup,
				Err:     err(fault.SetupFailed),
				Another: true,
			},
			outcome: rollout.InfraFailed,
			kind:    fault.Timeout,
			text:    "cause",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			outcome, kind, text, retry := workflows.Decide(c.f)
			require.Equal(t, c.outcome, outcome)
			require.Equal(t, c.kind, kind)
			require.Equal(t, c.text, text)
			require.Equal(t, c.retry, retry)
		})
	}
}
