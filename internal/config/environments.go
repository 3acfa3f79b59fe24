package config

import (
	"maps"
	"regexp"
	"slices"
	"time"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

// Environment is an environment of interactive episodes, served at /env/NAME/.
type Environment struct {
	Description string `yaml:"description"`

	// default: the toolset default
	EnabledToolsets []string `yaml:"enabled_toolsets"`

	// taken from the enabled ones
	DisabledToolsets []string `yaml:"disabled_toolsets"`

	// tool calls of an episode; 0: rollout.MaxEpisodeSteps
	MaxSteps int `yaml:"max_steps"`

	// an episode without a call for this long is closed; 0: 15m
	Idle time.Duration `yaml:"idle"`

	// an episode of this age is closed and graded; 0: 1h
	Life time.Duration `yaml:"life"`

	// name of a task set; a reset picks its task by task_id or seed
	TaskSet string `yaml:"task_set"`
	// Arguments are arguments of start_rollout (setup, upload_files, verify, sandbox …) for resets that do
	// not set them.
	Arguments map[string]any `yaml:"arguments"`
}

// toolsEnvironment is the environment that exists without configuration.
const toolsEnvironment = "tools"

// HarborEnvironment is the environment for OpenEnv's HarborEnv clients, which always exists. Its entry in
// Config.Environments may have arguments, and the task set for clients that name none.
const HarborEnvironment = "harbor"

// DefaultLife is how long an episode may take.
const DefaultLife = time.Hour

var environmentName = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,31}$`)

// Episodes are the environments of interactive episodes: those of the configuration, and toolsEnvironment.
func (c Config) Episodes() map[string]Environment {
	all := maps.Clone(c.Environments)
	if all == nil {
		all = map[string]Environment{}
	}

	delete(all, HarborEnvironment)

	if _, ok := all[toolsEnvironment]; !ok {
		all[toolsEnvironment] = Environment{}
	}

	return all
}

func (c Config) validateEnvironments(p *problems) {
	for _, name := range slices.Sorted(maps.Keys(c.Environments)) {
		e, path := c.Environments[name], "environments."+name
		p.check(environmentName.MatchString(name), path,
			"the name must be 1 to 32 lower-case letters, digits, '_' or '-', beginning with a letter")
		p.check(e.MaxSteps >= 0 && e.MaxSteps <= rollout.MaxEpisodeSteps, path+".max_steps",
			"must be 0 (the most) to %d, got %d", rollout.MaxEpisodeSteps, e.MaxSteps)
		p.check(e.Idle >= 0 && e.Life >= 0, path,
			"idle and life must be 0 (the default) or more, got %s and %s", e.Idle, e.Life)
		_, known := c.TaskSets[e.TaskSet]
		p.check(name != HarborEnvironment || e.onlyHarbor(), path,
			"must have no settings but task_set and arguments: its episodes are whole rollouts")
		p.check(e.TaskSet == "" || known, path+".task_set", "must be the name of one of task_sets, got %q", e.TaskSet)
	}
}

// onlyHarbor reports whether all settings that are set apply to HarborEnvironment.
func (e Environment) onlyHarbor() bool {
	return e.Description == "" && len(e.EnabledToolsets)+len(e.DisabledToolsets)+e.MaxSteps == 0 && e.Idle == 0 &&
		e.Life == 0
}
