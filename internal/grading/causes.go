package grading

import (
	"context"
	"errors"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandbox"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
	"github.com/rolloutd/rolloutd/internal/store"
	"github.com/rolloutd/rolloutd/internal/text"
)

// ReadCauses returns the recorded resource limits that the attempt's sandboxes reached.
func ReadCauses(ctx context.Context, s *store.Store, t rollout.Target) ([]rollout.ResourceCause, error) {
	var causes []rollout.ResourceCause

	err := s.JSON(ctx, store.AttemptKey(t.RolloutID, t.Attempt, store.Resources), &causes)
	if fault.Is(err, fault.NotFound) {
		return nil, nil
	}

	return causes, err
}

// noteCauses records which bounds the verifier's sandbox reached, without those reached earlier. A sandbox that left
// nothing has no causes: other calls say that it is gone.
func noteCauses(ctx context.Context, sb *sandbox.Sandbox, record *Record) {
	if use, err := sb.Usage(ctx); err == nil {
		record.Causes, record.byHost = sandbox.Causes(use, rollout.PhaseVerifying, record.earlier), use.ByHost
	}
}

// checkVerifier decides whether the verifier itself is at fault, after a grading without a reward or with
// failed commands. It runs the verifier again without the agent's work: if that reaches the same limit of
// the sandbox, cannot be staged, ends in the same way without a reward, or has a command whose program is
// missing there, the verifier is at fault. The agent cannot reach that sandbox, so it cannot turn a reward of 0 into
// null.
func (g *Grader) checkVerifier(ctx context.Context, job Job, record Record, err error) error {
	if err == nil && record.lacksRunner {
		return g.checkRunner(ctx, job, record)
	}

	if !doubtful(job, record, err) {
		return err
	}

	alone, controlErr := g.controlOf(ctx, job)

	var f *failure
	if errors.As(controlErr, &f) {
		return verifierFailed("the verifier fails without the agent's work too: %s", f.why)
	}

	if controlErr != nil {
		return controlErr
	}

	for _, c := range alone.causes {
		if slices.ContainsFunc(record.Causes, func(o rollout.ResourceCause) bool { return o.Cause == c.Cause }) {
			return verifierFailed("the verifier reaches a bound of its sandbox without the agent's work too: %s", c)
		}
	}

	if silent(job, err) && alone.script.ends(record.Script) {
		return verifierFailed("the test script (exit code %d) writes no reward without the agent's work too%s",
			record.Script.ExitCode, afterColon(lastLine(alone.script.stderr)))
	}

	if !mayMiss(job, record) {
		return err
	}

	for i, c := range record.Commands {
		if i < len(alone.commands) && cannotStart(c) && alone.commands[i].exitCode == c.ExitCode &&
			lacksProgram(job.Verifier, c.Cmd, alone.commands[i], alone.path) {
			return verifierFailed(
				"verify command %d (exit code %d) cannot start its program without the agent's work either%s",
				i+1,
				c.ExitCode,
				afterColon(alone.commands[i].stderr),
			)
		}
	}

	return err
}

// silent reports whether a test script failed without a reward and the verifier can be asked about that: its
// sandbox without the agent's work is that in which the agent began.
func silent(job Job, err error) bool {
	var f *failure
	return errors.As(err, &f) && f.silent && job.Untouched
}

// scriptEnd is how the test script ended without the agent's work.
type scriptEnd struct {
	// it wrote a reward, or did not end
	other bool

	timedOut bool
	exit     int
	stderr   string

	// what it wrote; 0: none
	reward float64

	// why programs could not run, if it ran with stand-ins
	standIns []string

	// none of its tests ran for such a reason
	prevented bool
}

// ends reports whether the script ended in the same way with the work, which also wrote no reward.
func (e *scriptEnd) ends(with *rollout.CommandResult) bool {
	return e != nil && !e.other && with != nil && e.exit == with.ExitCode
}

// maxLine bounds the characters of a quoted line.
const maxLine = 300

// lastLine is the last line of an output; "": there is none.
func lastLine(output string) string {
	output = strings.TrimSpace(output)
	return output[strings.LastIndexByte(output, '\n')+1:]
}

// afterColon is the head of a line, after a colon; "": the line is empty.
func afterColon(line string) string {
	if line == "" {
		return ""
	}

	return ": " + text.Head(line, maxLine)
}

// doubtful reports whether a limit of the sandbox, or the verifier itself, may have determined the reward:
// the submission or a command failed. A reward that the script wrote is not doubtful, and neither is one from the
// agent's own sandbox, where the work may have reached the limit.
func doubtful(job Job, record Record, err error) bool {
	if job.Verifier.Shared() {
		return false
	}

	var f *failure
	if err != nil {
		return errors.As(err, &f) && !f.verifier && (f.bound || len(record.Causes) > 0 || silent(job, err))
	}

	if mayMiss(job, record) {
		return true
	}

	scriptDecided := job.Verifier.Script != "" && len(record.Commands) == 0

	return len(record.Causes) > 0 && !scriptDecided && record.Reward != nil && passed(record.Commands) < 1
}

// controlReserve is the part of the activity's time that another run of the verifier leaves for the steps after it.
const controlReserve = 30 * time.Second

// timeLeft is the time that another run of the verifier may take.
func timeLeft(ctx context.Context, job Job) time.Duration {
	if end, ok := ctx.Deadline(); ok {
		return time.Until(end) - controlReserve
	}

	return job.Timeout
}

// control is how the verifier ended without the agent's work.
type control struct {
	// the limits that it reached
	causes []rollout.ResourceCause

	// nil: no script ran
	script *scriptEnd

	// by their number
	commands []commandEnd

	// PATH of the verifier's processes
	path string

	// another run ends in the same way: neither time nor the host's memory ran out
	repeatable bool
}

// runAlone runs the verifier in a fresh sandbox without the agent's work. It uses the remaining time of ctx;
// if none is left, it runs nothing.
func (g *Grader) runAlone(ctx context.Context, job Job) (c control, err error) {
	total := min(job.Timeout, timeLeft(ctx, job))
	if total <= 0 {
		return c, nil
	}

	sb, release, err := g.Sandboxes.CreateControl(ctx, job.Target, verifierSpec(job, nil))
	if err != nil {
		return c, err
	}
	defer release()

	started, err := sandbox.CommandStarted(ctx, sb, firstProcess(job.Verifier))
	if err == nil && !started {
		err = g.stage(ctx, sb, job)
	}

	if err == nil {
		c, err = runControl(ctx, sb, job.Verifier, &sandbox.CommandBudget{Total: total})
	}

	if err != nil {
		return c, g.handleLostSandbox(ctx, sb, &Record{}, err)
	}

	use, err := sb.Usage(ctx)
	if err != nil {
		return c, err
	}

	c.causes = sandbox.Causes(use, rollout.PhaseVerifying, nil)
	c.repeatable = c.repeatable && !use.ByHost

	return c, nil
}

// runControl runs script and commands. It skips a command that cannot start because earlier ones left too
// many processes.
func runControl(
	ctx context.Context,
	sb *sandbox.Sandbox,
	v rollout.Verifier,
	b *sandbox.CommandBudget,
) (c control, err error) {
	if c.path, err = searchPath(ctx, sb); err != nil {
		return c, err
	}

	c.repeatable = true

	if v.Script != "" {
		if c.script, err = scriptAlone(ctx, sb, v, b); err != nil {
			return c, err
		}

		c.repeatable = !c.script.timedOut
	}

	for i, cmd := range v.Commands {
		st, err := sandbox.RunCommand(ctx, sb, commandProcess(i), asCommand(cmd), b)
		if fault.Is(err, fault.Exhausted) {
			c.commands = append(c.commands, commandEnd{})
			continue
		}

		if err != nil {
			return c, err
		}

		res, err := sandbox.CommandResult(ctx, sb, cmd, st)
		if err != nil {
			return c, err
		}

		c.commands = append(c.commands, commandEnd{exitCode: res.ExitCode, stderr: lastLine(res.Stderr)})
		c.repeatable = c.repeatable && !st.TimedOut
	}

	return c, nil
}

// searchPath is the PATH of the verifier's processes.
func searchPath(ctx context.Context, sb *sandbox.Sandbox) (string, error) {
	p := asVerifier("-c", `printf %s "$PATH"`)

	st, err := sandbox.RunCommand(ctx, sb, pathProcess, p, &sandbox.CommandBudget{Total: syntaxTimeout})
	if err != nil {
		return "", blameBounds(err, "start bash")
	}

	res, err := sandbox.CommandResult(ctx, sb, "PATH", st)

	return res.Stdout, err
}

func scriptAlone(
	ctx context.Context,
	sb *sandbox.Sandbox,
	v rollout.Verifier,
	b *sandbox.CommandBudget,
) (*scriptEnd, error) {
	st, err := sandbox.RunCommand(ctx, sb, scriptProcess, asScript(), b)
	if err != nil {
		return nil, blameBounds(err, "start the test script")
	}

	res, err := sandbox.CommandResult(ctx, sb, testScript, st)
	if err != nil {
		return nil, err
	}

	end := &scriptEnd{other: st.TimedOut, timedOut: st.TimedOut, exit: res.ExitCode, stderr: res.Stderr}

	for _, name := range []string{rewardsFile, rewardFile} {
		written, err := readRewardFile(ctx, sb, path.Join(wire.VerifierLogs, name), maxRewardsFile)
		if err != nil {
			return nil, err
		}

		if strings.TrimSpace(written) == "" {
			continue
		}

		end.other = true
		if name == rewardsFile {
			_, end.reward, _ = parseRewards(written, v)
		} else if end.reward == 0 {
			end.reward, _ = parseReward(written, v)
		}
	}

	if end.standIns, err = stoodIn(ctx, sb); err != nil {
		return nil, err
	}

	end.prevented, err = testsPrevented(ctx, sb)

	return end, err
}
