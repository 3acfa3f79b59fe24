package tools

import (
	"strings"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

// Arguments returns the arguments of start_rollout for a rollout like this one, which has its own id and is in no group.
// A value that is the default is left out. leftOut names arguments that cannot be read back: keys are sealed, and files
// are in the store.
func (t *Table) Arguments(s rollout.Spec) (a RolloutArgs, leftOut []string) {
	a = RolloutArgs{
		Instruction: s.Task.Instruction, TaskID: s.Task.ID, Agent: s.Agent, React: s.React, Mode: string(s.Mode),
		Setup: s.Task.Setup, Solution: s.Task.Solution, UploadFiles: s.Task.Files, Uploads: s.Task.Uploads,
		RewardStrategy: string(s.Task.RewardStrategy), AgentTimeoutS: s.Limits.Agent.Seconds(), Messages: string(s.Messages),
	}
	a.setModel(s.Model)
	a.setVerifier(s.Task.Verifier)
	a.Limits, a.Sandbox = t.limitsOf(s.Limits), sandboxOf(s.Sandbox)

	if n := s.Sandbox.Network; n != nil {
		a.Network = &NetworkArgs{Allow: n.Allow, Setup: n.Setup, Agent: n.Agent}
	}

	if e := s.Episode; e != nil {
		a.Episode = &EpisodeArgs{e.EnabledToolsets, e.DisabledToolsets, e.MaxSteps, e.Idle.Seconds()}
	}

	for _, missing := range []struct {
		name string
		is   bool
	}{
		{"api_key", s.Model.Own || s.Model.Endpoint == "" && s.Model.BaseURL != ""},
		{"upload_files", s.Task.FilesRef != nil},
		{"test_files", s.Task.Verifier.FilesRef != nil},
		{"steps", len(s.Task.Steps) > 0},
	} {
		if missing.is {
			leftOut = append(leftOut, missing.name)
		}
	}

	return a, leftOut
}

// setModel sets the arguments of the model. The URL of a named endpoint is the server's.
func (a *RolloutArgs) setModel(m rollout.Model) {
	a.Endpoint, a.Model, a.MaxTokensCap, a.TopLogprobs = m.Endpoint, m.Name, m.MaxTokensCap, m.TopLogprobs
	a.Images, a.Price, a.Purpose = m.Images, m.Price, string(m.Purpose)
	a.Continuation, a.UserTurn = string(m.Continuation), string(m.UserTurn)
	a.OnEngineFault, a.Translate, a.RoutedExperts = string(m.OnEngineFault), string(m.Translate), m.RoutedExperts
	a.SamplingMasks = m.SamplingMasks

	if m.Own || m.Endpoint == "" {
		a.BaseURL = m.BaseURL
	}

	switch {
	case m.BaseURL == "":
		// an agent without model calls
	case m.Thinking != nil && *m.Thinking:
		a.Thinking = true
	default:
		a.DisableThinking = new(m.Thinking != nil)
	}

	if m.Purpose == rollout.PurposeEval {
		a.EvalPinned = m.Sampling
	} else {
		a.Pinned = m.Sampling
	}
}

func (a *RolloutArgs) setVerifier(v rollout.Verifier) {
	a.Verify, a.TestScript, a.TestFiles = v.Commands, v.Script, v.Files
	a.RewardRange, a.RewardKey, a.OnTimeout = v.RewardRange, v.RewardKey, v.OnTimeout

	if !v.External && v.Image == "" && v.Grade == "" && len(v.Collect)+len(v.Artifacts)+len(v.Exclude) == 0 {
		return
	}

	a.Verifier = &VerifierArgs{External: v.External, Image: v.Image, Artifacts: v.Artifacts, Exclude: v.Exclude, Grade: v.Grade}
	for _, c := range v.Collect {
		a.Verifier.Collect = append(a.Verifier.Collect, CollectArgs{Command: c.Command, TimeoutS: c.Timeout.Seconds()})
	}
}

// limitsOf are the limits that are not those that a rollout of the same agent_timeout_s has by default.
func (t *Table) limitsOf(l rollout.Limits) LimitArgs {
	args, usual := LimitArgs{}, t.limits(RolloutArgs{AgentTimeoutS: l.Agent.Seconds()})

	for _, b := range rollout.Bounds() {
		name, isLimit := strings.CutPrefix(b.Name, inLimits)
		if isLimit && b.Of(l) != b.Of(usual) {
			args[name] = b.Of(l)
		}
	}

	return args
}

func sandboxOf(s rollout.Sandbox) *SandboxArgs {
	return &SandboxArgs{
		Backend: s.Backend, Image: s.Image, CPU: s.CPU, MemoryMiB: s.MemoryMiB, DiskMiB: s.DiskMiB, User: s.User,
		Workdir: s.Workdir, ImageEnv: s.ImageEnv, GradePaths: s.GradePaths, Env: s.Env, Services: s.Services, Volumes: s.Volumes,
		MCPServers: s.MCPServers, SkillsDir: s.SkillsDir,
	}
}
