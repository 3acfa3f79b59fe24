// Package agenttest is the suite that every agent passes: what the rest of rolloutd relies on, tried with the real agent in real
// sandboxes and with the scripted model.
package agenttest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/agent"
	"github.com/rolloutd/rolloutd/internal/sandbox"
)

// Harness gives the suite the agent under test.
type Harness struct {
	// Backend returns the place where sandboxes are made. It must show the host's folder of agents in them if the agent needs that.
	Backend func(t *testing.T) *sandbox.Backend
	// Agent returns a new Agent at each call, as a worker that was started again has one.
	Agent func(t *testing.T) agent.Agent
	// Env is what the agent gets in a place; nil: the place's own, which has the sandbox only.
	Env func(t *testing.T, p *Place) agent.Env
	// Quick is a job that the agent ends by itself, with an answer. Its instruction should be QuickInstruction where the agent asks
	// a model.
	Quick agent.Job
	// Endless is a job that goes on until it is stopped; nil: there is none. See EndlessInstruction.
	Endless *agent.Job
	// Loud is a job that ends by itself and writes many MiB of output; nil: there is none.
	Loud *agent.Job
	// Messages says that Quick leaves a transcript.
	Messages bool
	// OnHost says that the agent's loop is no process of the sandbox.
	OnHost bool
}

// Instructions that the model of a Place knows.
const (
	QuickInstruction   = "agenttest: answer at once"
	EndlessInstruction = "agenttest: wait for a reply that never comes"
)

// Patience bounds every wait of the suite. It is never reached, even on a busy machine.
const Patience = 5 * time.Minute

// MaxTranscript bounds the JSON of a transcript, in bytes.
const MaxTranscript = 33 << 20

// Run runs the suite.
func Run(t *testing.T, h Harness) {
	t.Helper()
	tests := map[string]func(*testing.T, Harness){
		"InstallTwice":            installTwice,
		"AttachBeforeTheStart":    attachBeforeTheStart,
		"OpenStartsOnce":          openStartsOnce,
		"DoneIsReturnedAtOnce":    doneIsReturnedAtOnce,
		"TranscriptAndOutput":     transcriptAndOutput,
		"LostSandboxAtTheStart":   lostSandboxAtTheStart,
		"StopOfAFinishedAgent":    stopOfAFinishedAgent,
		"LoudAgentIsBounded":      loudAgentIsBounded,
		"StatusWhileWorking":      statusWhileWorking,
		"CancelledNext":           cancelledNext,
		"CloseLeavesItWorking":    closeLeavesItWorking,
		"StopKills":               stopKills,
		"KilledAgentIsDone":       killedAgentIsDone,
		"LostSandboxWhileWorking": lostSandboxWhileWorking,
		"SecondLaunch":            secondLaunch,
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, h)
		})
	}
}

// endless is the job that does not end by itself. Without one the test is skipped.
func (h Harness) endless(t *testing.T) agent.Job {
	t.Helper()
	if h.Endless == nil {
		t.Skip("the agent has no job that goes on until it is stopped")
	}
	return *h.Endless
}

// env is what the agent gets in a place. Each place has one.
func (h Harness) env(t *testing.T, p *Place) agent.Env {
	t.Helper()
	p.envOnce.Do(func() {
		if p.env = p.Env(); h.Env != nil {
			p.env = h.Env(t, p)
		}
	})
	return p.env
}

// installed is a place with the agent in it.
func (h Harness) installed(t *testing.T) *Place {
	t.Helper()
	p := NewPlace(t, h.Backend(t), scripts)
	if i, ok := h.Agent(t).(agent.Installer); ok {
		_, err := i.Install(t.Context(), h.env(t, p))
		require.NoError(t, err)
	}
	return p
}

// open starts or attaches to the agent, as a worker of its own.
func (h Harness) open(t *testing.T, p *Place, job agent.Job) agent.Run {
	t.Helper()
	r, err := h.Agent(t).Open(t.Context(), h.env(t, p), job)
	require.NoError(t, err)
	t.Cleanup(r.Close)
	return r
}

// attach attaches to the agent, as a worker of its own.
func (h Harness) attach(t *testing.T, p *Place, job agent.Job) agent.Run {
	t.Helper()
	r, err := h.Agent(t).Attach(t.Context(), h.env(t, p), job)
	require.NoError(t, err)
	t.Cleanup(r.Close)
	return r
}
