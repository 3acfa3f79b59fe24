package tools

import (
	"github.com/rolloutd/rolloutd/internal/catalog"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// messagesDelta is the default of the argument messages.
const messagesDelta = "delta"

// Spec returns a validated rollout from the arguments of start_rollout, without starting it.
func (t *Table) Spec(args map[string]any) (rollout.Spec, error) {
	a := defaultRolloutArgs(t.o.Agents[0])
	if err := t.decode(Call{Tool: startRollout, Args: args}, &a); err != nil {
		return rollout.Spec{}, err
	}

	return t.spec(a)
}

// spec returns a validated rollout from the arguments.
func (t *Table) spec(a RolloutArgs) (rollout.Spec, error) {
	s, err := t.resolved(a)
	if err == nil {
		err = s.Validate()
	}

	return s, err
}

// resolved returns a rollout from the arguments that is not validated yet.
func (t *Table) resolved(a RolloutArgs) (rollout.Spec, error) {
	model, err := t.model(a)
	if err != nil {
		return rollout.Spec{}, err
	}

	box, err := t.sandbox(a)
	if err != nil {
		return rollout.Spec{}, err
	}

	react, err := t.react(a)
	if err != nil {
		return rollout.Spec{}, err
	}

	episode, err := t.episode(a)
	if err != nil {
		return rollout.Spec{}, err
	}

	if err := t.verifierImage(box.Backend, a); err != nil {
		return rollout.Spec{}, err
	}

	s := rollout.Spec{
		ID: a.RolloutID, GroupID: a.GroupID, Task: task(a),
		Agent: a.Agent, React: react, Episode: episode, Mode: rollout.Mode(a.Mode),
		Model: model, Limits: t.limits(a), Sandbox: box, Messages: rollout.MessagesMode(a.Messages),
	}
	if a.Messages == messagesDelta {
		s.Messages = rollout.MessagesDelta
	}

	if _, asked := a.Limits["rollout_s"]; len(s.Task.Steps) > 0 && !asked && t.o.Limits.Rollout == 0 {
		s.Limits.Rollout = 0
		s.Limits = s.FilledLimits()
	}

	if s.Agent == rollout.AgentInteractive {
		// a client's steps cannot be repeated on another host
		s.Limits.Attempts = rollout.EpisodeAttempts
	}

	if s.ID == "" {
		s.ID = t.o.NewID()
	}

	return s, nil
}

// model resolves the endpoint. The API key is kept only in its sealed form. An agent without model calls
// needs no endpoint.
func (t *Table) model(a RolloutArgs) (rollout.Model, error) {
	if !rollout.NeedsModel(a.Agent) && a.ModelKey+a.Endpoint+a.BaseURL == "" {
		return rollout.Model{}, nil
	}

	m, key, err := t.o.Resolve(catalog.Request{
		ModelKey:        a.ModelKey,
		VLLMURL:         a.VLLMURL,
		HFToken:         a.HFToken,
		Thinking:        a.Thinking,
		Endpoint:        a.Endpoint,
		BaseURL:         a.BaseURL,
		APIKey:          a.APIKey,
		Model:           a.Model,
		DisableThinking: a.DisableThinking,
		Images:          a.Images,
		MaxTokensCap:    a.MaxTokensCap,
		TopLogprobs:     a.TopLogprobs,
	})
	if err != nil {
		return rollout.Model{}, err
	}

	m.SealedKey = t.o.Seal(key)
	if err := pin(&m, rollout.Mode(a.Mode), a); err != nil {
		return rollout.Model{}, err
	}

	if a.Price != nil {
		m.Price = a.Price
	}

	m.Continuation, m.UserTurn = rollout.Continuation(a.Continuation), rollout.UserTurn(a.UserTurn)
	m.OnEngineFault, m.RoutedExperts = rollout.OnEngineFault(a.OnEngineFault), a.RoutedExperts
	m.SamplingMasks = a.SamplingMasks

	switch a.Translate {
	case "":
	case translateNone:
		m.Translate = rollout.TranslateNone
	default:
		m.Translate = rollout.Translate(a.Translate)
	}

	return m, nil
}

// translateNone is the value of the argument translate for calls in the agent's own API, whatever the
// configuration of the endpoint.
const translateNone = "none"

func task(a RolloutArgs) rollout.Task {
	var setup []string
	if a.SetupShell != "" {
		setup = append(setup, a.SetupShell)
	}

	verifier := rollout.Verifier{
		Script:      a.TestScript,
		Commands:    a.Verify,
		Files:       a.TestFiles,
		RewardRange: a.RewardRange,
		RewardKey:   a.RewardKey,
		OnTimeout:   a.OnTimeout,
		Grade:       grade(a),
	}
	if v := a.Verifier; v != nil {
		verifier.External, verifier.Image, verifier.Artifacts = v.External, v.Image, v.Artifacts
		verifier.Exclude, verifier.Collect = v.Exclude, collect(v.Collect)
	}

	if a.NoVerify {
		verifier = rollout.Verifier{}
	}

	return rollout.Task{
		ID: a.TaskID, Instruction: a.Instruction, Files: a.UploadFiles, Uploads: a.Uploads,
		Setup: append(setup, a.Setup...), Solution: a.Solution,
		Verifier: verifier,
		Steps:    steps(a), RewardStrategy: rollout.RewardStrategy(a.RewardStrategy),
	}
}

func collect(given []CollectArgs) []rollout.CollectCommand {
	var all []rollout.CollectCommand
	for _, c := range given {
		all = append(all, rollout.CollectCommand{Command: c.Command, Timeout: seconds(c.TimeoutS)})
	}

	return all
}

// grade is Verifier.Grade of the task and of each of its steps.
func grade(a RolloutArgs) string {
	if a.Verifier == nil {
		return ""
	}

	return a.Verifier.Grade
}

func steps(a RolloutArgs) []rollout.Step {
	var all []rollout.Step

	for _, s := range a.Steps {
		verifier := rollout.Verifier{
			Script:      s.TestScript,
			Commands:    s.Verify,
			Files:       s.TestFiles,
			RewardRange: s.RewardRange,
			RewardKey:   s.RewardKey,
			OnTimeout:   a.OnTimeout,
			Grade:       grade(a),
		}
		if a.NoVerify {
			verifier, s.MinReward = rollout.Verifier{}, nil
		}

		all = append(all, rollout.Step{
			Name: s.Name,
			Task: rollout.Task{
				Instruction: s.Instruction, Files: s.UploadFiles, Uploads: s.Uploads,
				Setup: s.Setup, Solution: s.Solution, Verifier: verifier,
			},
			AgentTimeout:    seconds(s.AgentTimeoutS),
			VerifierTimeout: seconds(s.VerifierS),
			MinReward:       s.MinReward,
		})
	}

	return all
}
