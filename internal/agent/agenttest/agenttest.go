// Package agenttest is the conformance suite of agents. It tests the properties on which the rest of
// rolloutd relies, with the real agent in real sandboxes and the scripted model.
package agenttest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/agent"
	"github.com/rolloutd/rolloutd/internal/sandbox"
)

// Harness describes the agent under test.
type Harness struct {
	// Backend returns the backend that creates sandboxes. It must mount the host's folder of agents if the
	// agent needs it.
	Backend func(t *testing.T) *sandbox.Backend
	// Agent returns a new Agent at each call, as after a restart of the worker.
	Agent func(t *testing.T) agent.Agent
	// Env returns the agent's environment in a Place; nil: Place.Env, which has only the sandbox.
	Env func(t *testing.T, p *Place) agent.Env
	// Quick is a job that the agent completes with an answer. If the agent calls a model, its instruction
	// should be QuickInstruction.
	Quick agent.Job
	// Endless is a job that runs until it is stopped; nil: the agent has none. See EndlessInstruction.
	Endless *agent.Job
	// Loud is a job that ends by itself and writes many MiB of output; nil: the agent has none.
	Loud *agent.Job
	// Messages: Quick leaves a transcript.
	Messages bool
	// OnHost: the agent's loop is not a process in the sandbox.
	OnHost bool
}

// Instructions that the model of a Place recognizes.
const (
	QuickInstruction   = "agenttest: answer at once"
	EndlessInstruction = "agenttest: wait for a reply that never comes"
)

// Patience bounds every wait of the suite. It is longer than any wait on a busy machine.
const Patience = 5 * time.Minute

// MaxTranscript bounds the JSON of a transcript, in bytes.
const MaxTranscript = 33 << 20

// Run runs the suite.
func Run(t *testing.T, h Harness) {
	t.Helper()

	tests := map[string]func(*testing.T, Harness){
		"AttachBeforeTheStart":    attachBeforeTheStart,
		"FinishedAgent":           finishedAgent,
		"LostSandboxAtTheStart":   lostSandboxAtTheStart,
		"LoudAgentIsBounded":      loudAgentIsBounded,
		"RunningAgent":            runningAgent,
		"KilledAgentIsDone":       killedAgentIsDone,
		"LostSandboxWhileRunning": lostSandboxWhileRunning,
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, h)
		})
	}
}

// endless is the job that runs until it is stopped. If the agent has none, it skips the test.
func (h Harness) endless(t *testing.T) agent.Job {
	t.Helper()

	if h.Endless == nil {
		t.Skip("the agent has no job that runs until it is stopped")
	}

	return *h.Endless
}

// env is the agent's environment in a place. Each place has one.
func (h Harness) env(t *testing.T, p *Place) agent.Env {
	t.Helper()
	p.envOnce.Do(func() {
		if p.env = p.Env(); h.Env != nil {
			p.env = h.Env(t, p)
		}
	})

	return p.env
}

// installed is a place in which the agent is installed. A repeated installation changes nothing.
func (h Harness) installed(t *testing.T) *Place {
	t.Helper()

	p := NewPlace(t, h.Backend(t), scripts)
	if i, ok := h.Agent(t).(agent.Installer); ok {
		for range 2 {
			summary, err := i.Install(t.Context(), h.env(t, p))
			require.NoError(t, err)
			require.NotEmpty(t, summary, "Install describes what it did")
		}
	}

	return p
}

// open starts or attaches to the agent, as a separate worker.
func (h Harness) open(t *testing.T, p *Place, job agent.Job) agent.Run {
	t.Helper()
	r, err := h.Agent(t).Open(t.Context(), h.env(t, p), job)
	require.NoError(t, err)
	t.Cleanup(r.Close)

	return r
}

// attach attaches to the agent, as a separate worker.
func (h Harness) attach(t *testing.T, p *Place, job agent.Job) agent.Run {
	t.Helper()
	r, err := h.Agent(t).Attach(t.Context(), h.env(t, p), job)
	require.NoError(t, err)
	t.Cleanup(r.Close)

	return r
}
