package taskset

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"regexp"
	"strings"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

// harborStep are the fields of a step in a task.toml that have a meaning here. Its files are in steps/<name>:
// instruction.md, tests/ over those of the task, solution/ in place of that of the task, and workdir/, which is put
// into the working directory and whose setup.sh runs there before the step.
type harborStep struct {
	Name  string `toml:"name"`
	Agent struct {
		TimeoutSec float64 `toml:"timeout_sec"`
		harborNetwork
	} `toml:"agent"`
	Verifier struct {
		TimeoutSec float64           `toml:"timeout_sec"`
		Env        map[string]string `toml:"env"`
		harborNetwork
	} `toml:"verifier"`

	// a number for "reward", or a table of rewards
	MinReward   any          `toml:"min_reward"`
	Healthcheck *healthcheck `toml:"healthcheck"`
}

// unsupportedInSteps are fields that change a step and that rolloutd does not support.
var unsupportedInSteps = []string{
	"agent.user", "verifier.environment_mode", "verifier.user", "verifier.collect", "verifier.environment",
}

// harborVerifierTimeout is what Harbor gives the verifier of a task or a step that has no timeout, in seconds.
const harborVerifierTimeout = 600

// steps reads the steps of the task. What the task has for itself belongs to the first one.
func (h *harborReader) steps(t *Task, settings []harborStep) {
	for n, s := range settings {
		field := fmt.Sprintf("steps[%d]", n)
		if !plainName(s.Name) {
			h.refuse("%s: %s.name: must be the name of a folder in steps, got %q", harborFile, field, s.Name)
			continue
		}

		t.Steps = append(t.Steps, h.step(t, field, path.Join("steps", s.Name), s))
	}

	if len(t.Steps) != len(settings) {
		return
	}

	first := &t.Steps[0]
	first.Setup = append(t.Setup, first.Setup...)

	for name := range first.Files {
		delete(t.Uploads, name)
	}

	for name := range first.Uploads {
		delete(t.Files, name)
	}

	maps.Copy(t.Uploads, first.Uploads)
	first.Uploads = t.Uploads

	if t.Files != nil {
		maps.Copy(t.Files, first.Files)
		first.Files = t.Files
	}

	t.Setup, t.Uploads, t.Files = nil, nil, nil
	t.Instruction = first.Instruction
}

func (h *harborReader) step(t *Task, field, folder string, s harborStep) Step {
	step := Step{
		Name:          s.Name,
		Instruction:   h.instruction(folder),
		Uploads:       map[string]string{},
		AgentTimeoutS: s.Agent.TimeoutSec,
		VerifierS:     cmp.Or(s.Verifier.TimeoutSec, harborVerifierTimeout),
		MinReward:     h.minReward(field+".min_reward", s.MinReward),
		RewardRange:   rollout.AnyReward(),
	}
	h.checkNetwork(field+".agent", s.Agent.harborNetwork)

	if s.Agent.Mode == harborAllowlist || s.Agent.Mode == harborNoNetwork {
		h.refuse("%s: %s.agent.network_mode: is not supported: a step has the task's network", harborFile, field)
	}

	if s.Verifier.Mode == harborAllowlist {
		h.refuse("%s: %s.verifier.network_mode: grading reaches no network, so it must be %q",
			harborFile, field, harborNoNetwork)
	}

	env := maps.Clone(h.verifierEnv)
	maps.Copy(env, h.variables(field+".verifier.env", s.Verifier.Env))

	from := folder + "/solution"
	if _, ok := h.files(from)[solveScript]; !ok {
		from = "solution"
	}

	step.Solution = h.solution(t, from)
	step.TestScript, step.TestFiles = h.tests(step.Uploads, env, "tests", folder+"/tests")

	work := h.files(folder + "/workdir")
	step.Files = h.inlined(step.Uploads, folder+"/workdir", work, "")

	if _, ok := work["setup.sh"]; ok {
		step.Setup = append(step.Setup, "bash setup.sh")
	}

	if s.Healthcheck != nil {
		step.Setup = append(step.Setup, h.healthcheck(field+".healthcheck", *s.Healthcheck))
	}

	return step
}

// minReward reads the least rewards with which the next step begins.
func (h *harborReader) minReward(field string, given any) map[string]float64 {
	switch given := given.(type) {
	case nil:
		return nil
	case map[string]any:
		least := map[string]float64{}

		for name, value := range given {
			number, ok := numberOf(value)
			if !ok {
				h.refuse("%s: %s.%s: must be a number, got %v", harborFile, field, name, value)
			}

			least[name] = number
		}

		return least
	}

	number, ok := numberOf(given)
	if !ok {
		h.refuse("%s: %s: must be a number or a table of numbers, got %v", harborFile, field, given)
	}

	return map[string]float64{"reward": number}
}

func numberOf(v any) (float64, bool) {
	switch v := v.(type) {
	case int64:
		return float64(v), true
	case float64:
		return v, true
	default:
		return 0, false
	}
}

// plainName reports whether a name is that of a folder and not a path.
func plainName(name string) bool {
	return strings.TrimSpace(name) != "" && name != "." && name != ".." && !strings.ContainsAny(name, "/\\\x00")
}

// canary is a line that marks a benchmark's files, so that they can be found in training data.
var canary = regexp.MustCompile(`(?i)^(<!--.*canary.*-->|#.*canary.*)$`)

// withoutCanary removes such lines, and blank ones after them, from the beginning of an instruction. Harbor does not
// show them to agents either.
func withoutCanary(instruction string) string {
	rest := instruction
	for {
		line, after, more := strings.Cut(rest, "\n")
		if !more || !canary.MatchString(strings.TrimSpace(line)) {
			break
		}

		rest = after
	}

	return strings.TrimLeft(rest, "\r\n")
}
