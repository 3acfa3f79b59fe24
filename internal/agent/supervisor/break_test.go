package supervisor_test

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/agent"
	"github.com/rolloutd/rolloutd/internal/agent/supervisor"
	"github.com/rolloutd/rolloutd/internal/driver"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/gateway/gatewayapi"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// unreliableGateway is a gateway whose route does not change. Its watch reports broken connections, its
// other requests fail between away and back, and its endpoint is paused until resumed.
type unreliableGateway struct {
	supervisor.Gateway
	status     gatewayapi.RouteStatus
	changes    chan *gatewayapi.Change
	away, back time.Time
	resumed    time.Time
}

func (g *unreliableGateway) Status(context.Context, string) (gatewayapi.RouteStatus, error) {
	if now := time.Now(); !now.Before(g.away) && now.Before(g.back) {
		return gatewayapi.RouteStatus{}, errAway
	}

	return g.status, nil
}

func (g *unreliableGateway) Watch(string, int64, time.Duration) (changes <-chan *gatewayapi.Change, stop func()) {
	return g.changes, func() {}
}

func (g *unreliableGateway) Probe(context.Context, string) error {
	if time.Now().Before(g.resumed) {
		return fault.New(fault.Unavailable, "it is paused")
	}

	return nil
}

func (*unreliableGateway) End(context.Context, string, string) error { return nil }

var errAway = fault.New(fault.Unavailable, "connection reset")

// idleAgent is an agent that keeps running and gives no sign of life.
type idleAgent struct {
	agent.Agent
	agent.Run
	began time.Time
}

func (i idleAgent) Attach(context.Context, agent.Env, agent.Job) (agent.Run, error) { return i, nil }

func (i idleAgent) Launch() agent.Launch {
	return agent.Launch{Number: 1, Began: i.began, First: i.began}
}

func (idleAgent) Next(ctx context.Context) (agent.Status, error) {
	<-ctx.Done()
	return agent.Status{}, ctx.Err()
}

func (idleAgent) Transcript(context.Context) (rollout.Transcript, error) {
	return rollout.Transcript{}, fault.New(fault.NotFound, "no transcript")
}

func (idleAgent) Stop(context.Context) error { return nil }

func (idleAgent) Close() {}

type ignoredSignals struct{}

func (ignoredSignals) SignalWorkflow(context.Context, string, string, string, any) error { return nil }

type failingInspector struct{}

func (failingInspector) Inspect(context.Context, string) (driver.Usage, error) {
	return driver.Usage{}, fault.New(fault.Unavailable, "not measured")
}

// Broken connections to the gateway neither remove the limits of an agent nor reduce its time, regardless
// of their number and duration.
func TestBrokenConnections(t *testing.T) {
	t.Parallel()

	for name, c := range map[string]struct {
		// when the watch reports a broken connection
		breaks []time.Duration

		// other requests fail from the first minute until then
		back time.Duration

		// when the agent is ended for lack of a sign of life
		want time.Duration
	}{
		"none":                   {nil, 0, 4 * minute},
		"one":                    {[]time.Duration{minute}, 0, 5 * minute},
		"many, minutes apart":    {[]time.Duration{minute, 3 * minute, 5 * minute, 8 * minute, 8*minute + second}, 0, 12*minute + second},
		"other requests fail on": {[]time.Duration{minute}, 3 * minute, 7 * minute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()

				g := &unreliableGateway{
					changes: make(chan *gatewayapi.Change, len(c.breaks)),
					status:  gatewayapi.RouteStatus{FirstCallAt: began},
					away:    began.Add(minute),
					back:    began.Add(c.back),
				}
				go func() {
					for _, at := range c.breaks {
						time.Sleep(time.Until(began.Add(at)))

						g.changes <- &gatewayapi.Change{Err: errAway}
					}
				}()

				result, err := watchIdle(t.Context(), t, g, began)
				require.NoError(t, err)
				require.Equal(t, rollout.AgentFailed, result.Outcome, result.Error)
				require.Contains(t, result.Error, "no sign of life")
				require.InDelta(t, c.want, time.Since(began), float64(5*second))
			})
		})
	}
}

// watchIdle watches an idle agent that was launched at began.
func watchIdle(ctx context.Context, t *testing.T, g *unreliableGateway, began time.Time) (*supervisor.Result, error) {
	t.Helper()
	return watchAgent(ctx, t, g, idleAgent{began: began})
}

func watchAgent(ctx context.Context, t *testing.T, g *unreliableGateway, a agent.Agent) (*supervisor.Result, error) {
	t.Helper()

	return supervisor.New(supervisor.Options{Gateway: g, Signals: ignoredSignals{}}).Run(ctx, &supervisor.Job{
		Kind: agent.Kind{Agent: a}, Sandboxes: failingInspector{}, Logger: slog.New(slog.DiscardHandler),
		Limits: rollout.Limits{Agent: time.Hour, Call: minute, FirstCall: minute, Quiet: 4 * minute},
	})
}

// After a refusal by a paused endpoint the probe waits for the end of the pause, for 3 minutes at most.
func TestProbeAfterAPause(t *testing.T) {
	t.Parallel()

	for name, c := range map[string]struct {
		pause, want time.Duration

		// "": the attempt fails
		outcome rollout.Outcome
		text    string
	}{
		"no pause":     {0, 0, rollout.AgentFailed, "it answered the calls before"},
		"a pause":      {minute, minute, rollout.AgentFailed, "it answered the calls before"},
		"a long pause": {time.Hour, 3 * minute, "", "it is paused"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				refused := gatewayapi.RouteStatus{
					FirstCallAt: began,
					Turns:       1,
					Failure:     &gatewayapi.Failure{Kind: fault.UpstreamRefused, Status: 403},
				}

				result, err := watchIdle(t.Context(), t, &unreliableGateway{
					status:  refused,
					resumed: began.Add(c.pause),
				}, began)
				if c.outcome == "" {
					require.Equal(t, fault.UpstreamRefused, fault.KindOf(err))
					require.ErrorContains(t, err, c.text)
				} else {
					require.NoError(t, err)
					require.Equal(t, c.outcome, result.Outcome)
					require.Contains(t, result.Error, c.text)
				}

				require.InDelta(t, c.want, time.Since(began), float64(6*second))
			})
		})
	}
}

// unstoppableAgent is an idle agent whose Stop fails.
type unstoppableAgent struct {
	idleAgent
	stop error
}

func (l unstoppableAgent) Attach(context.Context, agent.Env, agent.Job) (agent.Run, error) {
	return l, nil
}

func (l unstoppableAgent) Stop(context.Context) error { return l.stop }

// Processes that take long to die, or that the agent keeps from being killed, do not change its outcome; grading kills them
// again.
func TestAgentThatTakesLongToDie(t *testing.T) {
	t.Parallel()

	for kind, decided := range map[fault.Kind]bool{fault.Timeout: true, fault.Invalid: true, fault.SandboxLost: false} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			g := &unreliableGateway{status: gatewayapi.RouteStatus{FirstCallAt: began}}

			result, err := watchAgent(
				t.Context(),
				t,
				g,
				unstoppableAgent{idleAgent{began: began}, fault.New(kind, "512 processes outlived SIGKILL")},
			)
			if !decided {
				require.Equal(t, kind, fault.KindOf(err))
				return
			}

			require.NoError(t, err)
			require.Equal(t, rollout.AgentFailed, result.Outcome)
		})
	}
}

// A watch that attaches to an agent gives it the full time for its first call, because its earlier progress is unknown.
func TestFirstCallAfterATimeWithoutAWorker(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()

		time.Sleep(2 * minute)

		ctx, cancel := context.WithTimeout(t.Context(), minute/2)
		defer cancel()

		_, err := watchIdle(ctx, t, &unreliableGateway{}, began)
		require.ErrorIs(t, err, context.DeadlineExceeded, "it is neither stopped nor launched again")
	})
}
