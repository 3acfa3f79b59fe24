package activities

import (
	"bufio"
	"context"
	"errors"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/rolloutd/rolloutd/internal/agent"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/gateway/gatewayapi"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/store"
	"github.com/rolloutd/rolloutd/internal/trajectory/turns"
)

// agentOutput is how many bytes of each output stream of the agent are kept.
const agentOutput = 64 << 10

// CollectArtifacts saves the attempt's artifacts and, if the rollout ends with it, composes the Result. It
// fails without the trace, which a reward needs; it only logs the loss of other artifacts.
func (a *Activities) CollectArtifacts(ctx context.Context, in CollectInput) (CollectResult, error) {
	ctx, over, err := a.acquireAttempt(ctx, in.Target)
	if err != nil {
		return CollectResult{}, err
	}
	defer over()

	a.phase(in.Target, rollout.PhaseCollecting)

	if err := a.collectTrace(ctx, in); err != nil {
		return CollectResult{}, err
	}

	log := a.loggerOf("CollectArtifacts", in.Target)
	for _, c := range []struct {
		what    string
		collect func(context.Context, CollectInput) error
	}{
		{"agent output", a.collectOutput},
		{"agent events", a.collectEvents},
		{"network", a.collectNetwork},
		{"steps", a.collectSteps},
		{"services", a.collectServices},
		{"causes", a.lastCauses},
		// the last one: it ends all processes of the sandbox
		{"workspace", a.collectHome},
	} {
		if err := c.collect(ctx, in); err != nil && !fault.Is(err, fault.NotFound) {
			log.WarnContext(ctx, "not collected", "what", c.what, "kind", fault.KindOf(err), "error", err)
		}
	}

	if in.Continues {
		if err := a.grader(in.Target).SaveWork(ctx, in.Target); err != nil {
			return CollectResult{}, err
		}
	}

	if err := a.attemptEnded(ctx, in); err != nil {
		return CollectResult{}, err
	}

	if !in.Final {
		return CollectResult{}, nil
	}

	return a.ComposeResult(ctx, in)
}

// collectHome saves the agent's home directory.
func (a *Activities) collectHome(ctx context.Context, in CollectInput) error {
	return a.grader(in.Target).SaveHome(ctx, in.Target)
}

// collectTrace copies the gateway's record of all model calls into the store.
func (a *Activities) collectTrace(ctx context.Context, in CollectInput) error {
	if !in.Proxied {
		return a.collectEarlier(ctx, in)
	}
	// End cancels and records the model calls that still run, so the trace is complete.
	if err := a.o.Gateway.End(ctx, in.SandboxID(), "the attempt is over"); fault.Ignore(err, fault.NotFound) != nil {
		return err
	}

	if err := a.collectReport(ctx, in); err != nil {
		return err
	}

	trace, err := a.o.Gateway.Trace(ctx, in.SandboxID())
	if fault.Is(err, fault.NotFound) && (in.Head.Mode == rollout.BlackBox || !in.Head.Outcome.MayCarryReward()) {
		// no trace exists, or no trainer uses it
		return nil
	}

	if err != nil {
		return err
	}

	defer trace.Close()

	if err := a.putTrace(ctx, in, gatewayReader{trace}); err != nil {
		return err
	}

	return a.collectTraceFiles(ctx, in)
}

// collectTraceFiles copies the files into the store in which turns of the trace name places: the rows of routed experts,
// and images.
func (a *Activities) collectTraceFiles(ctx context.Context, in CollectInput) error {
	for name, open := range map[string]func(context.Context, string) (io.ReadCloser, error){
		store.RoutedExperts: a.o.Gateway.RoutedExperts,
		store.Images:        a.o.Gateway.Images,
	} {
		file, err := open(ctx, in.SandboxID())
		if fault.Is(err, fault.NotFound) {
			// a gateway of a release before has none
			continue
		}

		if err != nil {
			return err
		}

		err = a.putTraceFile(ctx, in, name, gatewayReader{file})
		file.Close()

		if err != nil {
			return err
		}
	}

	return nil
}

// putTraceFile stores a file of the trace, behind that of the steps before. Without any bytes there is no blob.
func (a *Activities) putTraceFile(ctx context.Context, in CollectInput, name string, file io.Reader) error {
	if in.From > 0 {
		earlier, err := a.o.Store.Reader(ctx, store.AttemptKey(in.RolloutID, in.From, name))
		if err != nil && !fault.Is(err, fault.NotFound) {
			return err
		}

		if err == nil {
			defer earlier.Close()

			file = io.MultiReader(earlier, file)
		}
	}

	all := bufio.NewReader(file)
	if _, err := all.Peek(1); errors.Is(err, io.EOF) {
		return nil
	}

	_, err := a.o.Store.Put(ctx, store.AttemptKey(in.RolloutID, in.Attempt, name), all)

	return err
}

// collectEarlier gives an attempt without a trace that of the step before.
func (a *Activities) collectEarlier(ctx context.Context, in CollectInput) error {
	if in.From == 0 {
		return nil
	}

	if err := a.putTrace(ctx, in, strings.NewReader("")); err != nil {
		return err
	}

	for _, name := range []string{store.RoutedExperts, store.Images} {
		if err := a.putTraceFile(ctx, in, name, strings.NewReader("")); err != nil {
			return err
		}
	}

	return nil
}

// putTrace stores the trace, behind the turns of the steps before.
func (a *Activities) putTrace(ctx context.Context, in CollectInput, trace io.Reader) error {
	key := store.AttemptKey(in.RolloutID, in.Attempt, store.Trace)

	if in.From > 0 {
		earlier, err := a.o.Store.Reader(ctx, store.AttemptKey(in.RolloutID, in.From, store.Trace))
		if err != nil && !fault.Is(err, fault.NotFound) {
			return err
		}

		if err == nil {
			defer earlier.Close()

			joined := turns.Join(earlier, trace, "step"+strconv.Itoa(in.Attempt)+".")
			defer joined.Close()

			trace = joined
		}
	}

	_, err := a.o.Store.Put(ctx, key, trace)

	return err
}

// collectReport saves the report about the endpoint. If the attempt may carry a reward, it first waits for
// a running probe.
func (a *Activities) collectReport(ctx context.Context, in CollectInput) error {
	if !a.callsModel(in.Agent) {
		return nil
	}

	wait := time.Duration(0)
	if in.Head.Outcome.MayCarryReward() {
		wait = gatewayapi.InspectTime
	}

	report, err := a.o.Gateway.Inspect(ctx, in.SandboxID(), wait)
	if err != nil || report.CaptureLevel == "" && len(report.Findings) == 0 {
		return fault.Ignore(err, fault.NotFound)
	}

	return a.o.Store.PutJSON(ctx, store.AttemptKey(in.RolloutID, in.Attempt, store.Endpoint), report)
}

// gatewayReader makes read errors of a trace retryable: the gateway still has it.
type gatewayReader struct{ r io.Reader }

func (g gatewayReader) Read(p []byte) (int, error) {
	n, err := g.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = fault.Wrap(fault.Unavailable, err, "trace")
	}

	return n, err
}

// collectOutput saves the end of the output of each launch. An agent on the host has no output.
func (a *Activities) collectOutput(ctx context.Context, in CollectInput) error {
	kind, err := a.o.Agents.Get(in.Agent)
	if err != nil || kind.OnHost {
		return err
	}

	sb, release, err := a.attach(ctx, in.Target)
	if err != nil {
		return err
	}
	defer release()

	run, err := kind.Attach(ctx, a.env(sb, in.Target), agent.Job{})
	if err != nil {
		return err
	}
	defer run.Close()

	text, err := run.Output(ctx, agentOutput)
	if err != nil {
		return err
	}

	_, err = a.o.Store.PutBytes(ctx, store.AttemptKey(in.RolloutID, in.Attempt, kind.OutputBlob), text)

	return err
}

// collectEvents renders the transcript that RunAgent saved as the agent's log.
func (a *Activities) collectEvents(ctx context.Context, in CollectInput) error {
	kind, err := a.o.Agents.Get(in.Agent)
	if err != nil {
		return err
	}

	var t rollout.Transcript
	if err := a.o.Store.JSON(ctx, store.AttemptKey(in.RolloutID, in.Attempt, store.Transcript), &t); err != nil {
		return err
	}

	_, err = a.o.Store.PutBytes(ctx, store.AttemptKey(in.RolloutID, in.Attempt, store.AgentEvents), kind.Log(t))

	return err
}

// collectSteps copies the step log to the store.
func (a *Activities) collectSteps(ctx context.Context, in CollectInput) error {
	if a.o.Episodes == nil {
		return nil
	}

	log, err := a.o.Episodes.Log(in.SandboxID())
	if err != nil {
		return fault.Ignore(err, fault.NotFound)
	}
	defer log.Close()

	_, err = a.o.Store.Put(ctx, store.AttemptKey(in.RolloutID, in.Attempt, store.Steps), log)

	return err
}
