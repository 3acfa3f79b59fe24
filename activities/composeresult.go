package activities

import (
	"context"
	"encoding/json"
	"strings"
	"unicode/utf8"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/grading"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/store"
	"github.com/rolloutd/rolloutd/internal/text"
	"github.com/rolloutd/rolloutd/internal/trajectory"
)

const (
	logTail     = 2000 // characters of agent and proxy log in a Result
	eventsTail  = 20   // events of the agent in a Result
	installTail = 2000
)

// ComposeResult writes the rollout's Result from the workflow's data and the store. It needs no host, so that a rollout that never got one, or
// lost it, has a result too.
func (a *Activities) ComposeResult(ctx context.Context, in CollectInput) (CollectResult, error) {
	res := skeleton(in)
	for _, part := range []func(context.Context, CollectInput, *rollout.Result) error{
		a.addTrace, a.addEvents, a.addSetup, a.addGrading, a.addCauses, a.addFiles, a.addLinks,
	} {
		if err := part(ctx, in, &res); err != nil {
			return CollectResult{}, err
		}
	}
	report, err := a.report(ctx, in)
	if err != nil {
		return CollectResult{}, err
	}
	res.CaptureLevel = report.Level(trajectory.LevelOf(res.ProxyTurns))
	res.LogprobsMode, res.ToolSupport, res.Findings = report.LogprobsMode, report.ToolSupport, report.Findings
	for _, fix := range report.ParamFixes {
		addFix(&res, fix)
	}
	res.RolloutType = in.Head.Purpose.Type(res.CaptureLevel, res.Usage.Turns)
	data, err := json.Marshal(res)
	if err != nil {
		return CollectResult{}, fault.Wrap(fault.Internal, err, "encode the result")
	}
	ref, err := a.o.Store.PutBytes(ctx, store.ResultKey(in.RolloutID), data)
	if err != nil {
		return CollectResult{}, err
	}
	return CollectResult{Result: ref, Usage: res.Usage}, a.o.Store.PutJSON(ctx, store.HeadKey(in.RolloutID), res.Head())
}

// report is the stored report about the attempt's endpoint.
func (a *Activities) report(ctx context.Context, in CollectInput) (rollout.EndpointReport, error) {
	var r rollout.EndpointReport
	err := a.o.Store.JSON(ctx, store.AttemptKey(in.RolloutID, in.Attempt, store.Endpoint), &r)
	return r, unless(fault.NotFound, err)
}

// skeleton is the workflow's part of the result.
func skeleton(in CollectInput) rollout.Result {
	h := in.Head
	res := rollout.NewResult(in.RolloutID)
	res.TaskID, res.GroupID, res.Owner = h.TaskID, h.GroupID, h.Owner
	res.Mode, res.SessionID, res.Phases, res.Sampling = h.Mode, h.SessionID, h.Phases, h.Sampling
	res.Outcome, res.Reward, res.ExitCode = h.Outcome, h.Reward, h.ExitCode
	if h.AgentRan || h.ExitCode != -1 {
		res.AgentExitCode = &h.ExitCode
	}
	res.MalformedCalls, res.ModelHeldS = h.Malformed, h.Held.Seconds()
	res.WallS = h.EndedAt.Sub(h.StartedAt).Seconds()
	res.InstallLogTail = text.Tail(h.InstallLog, installTail)
	if n := len(h.Attempts); n > 0 {
		res.Attempts, res.SandboxID = h.Attempts, h.Attempts[n-1].SandboxID
	}
	if h.Error != "" {
		res.Error = &h.Error
	}
	if h.Reward != nil { // from a client; a verifier leaves a record
		res.Grading = rollout.Grading{Status: rollout.Graded}
	}
	if h.Outcome == rollout.VerifierFailed { // unless the store has a record of the grading
		res.Grading = rollout.Grading{Status: rollout.NoUsableReward, Why: h.Error}
	}
	return res
}

func (a *Activities) addEvents(ctx context.Context, in CollectInput, res *rollout.Result) error {
	data, err := a.o.Store.Tail(ctx, store.AttemptKey(in.RolloutID, in.Attempt, store.AgentEvents), utf8.UTFMax*logTail)
	if err != nil {
		return unless(fault.NotFound, err)
	}
	res.AgentLogTail = text.Tail(text.LastLines(string(data), eventsTail), logTail)
	return nil
}

func (a *Activities) addSetup(ctx context.Context, in CollectInput, res *rollout.Result) error {
	return unless(fault.NotFound, a.o.Store.JSON(ctx, store.AttemptKey(in.RolloutID, in.Attempt, store.Setup), &res.SetupResults))
}

func (a *Activities) addGrading(ctx context.Context, in CollectInput, res *rollout.Result) error {
	record, err := grading.ReadRecord(ctx, a.o.Store, in.Target)
	if err != nil {
		return unless(fault.NotFound, err)
	}
	res.Grading = record.GradingOf(res.Outcome)
	res.VerifyResults, res.VerifierStdout, res.VerifierStderr = record.Commands, record.Stdout, record.Stderr
	if record.Script != nil {
		res.TestExitCode = &record.Script.ExitCode
	}
	return nil
}

// addLinks adds the keys of the attempt's existing blobs, by their names without endings.
func (a *Activities) addLinks(ctx context.Context, in CollectInput, res *rollout.Result) error {
	for _, name := range []string{
		store.Trace, store.Transcript, store.AgentEvents, store.OpencodeOutput, store.AgentOutput, store.Home, store.Setup, store.Grading, store.Resources,
		store.VerifierStdout, store.VerifierStderr, store.Network,
	} {
		key := store.AttemptKey(in.RolloutID, in.Attempt, name)
		there, err := a.o.Store.Exists(ctx, key)
		if err != nil {
			return err
		}
		if there {
			res.Links[linkName(name)] = key
		}
	}
	return nil
}

// linkName is the name of a blob in the API: "trace", "verifier.stdout".
func linkName(name string) string {
	for _, ending := range []string{".jsonl", ".json", ".tar", ".log"} {
		name = strings.TrimSuffix(name, ending)
	}
	return name
}

// unless returns err, or nil if err is of kind k.
func unless(k fault.Kind, err error) error {
	if fault.Is(err, k) {
		return nil
	}
	return err
}
