package taskset

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/BurntSushi/toml"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

// maxSettings bounds a task.toml, in bytes.
const maxSettings = 64 << 10

// harborSettings are the fields of a task.toml that have a meaning here. Others describe the task to people.
type harborSettings struct {
	Agent struct {
		TimeoutSec float64 `toml:"timeout_sec"`

		// a name or a number
		User any `toml:"user"`
		harborNetwork
	} `toml:"agent"`
	Verifier struct {
		TimeoutSec float64           `toml:"timeout_sec"`
		Env        map[string]string `toml:"env"`

		// shared or separate; "": separate with an environment
		EnvironmentMode string             `toml:"environment_mode"`
		Environment     *harborEnvironment `toml:"environment"`
		Collect         []harborCollect    `toml:"collect"`
		harborNetwork
	} `toml:"verifier"`
	Solution struct {
		Env map[string]string `toml:"env"`
	} `toml:"solution"`
	Environment harborEnvironment `toml:"environment"`

	// strings and tables
	Artifacts      []any        `toml:"artifacts"`
	Steps          []harborStep `toml:"steps"`
	RewardStrategy string       `toml:"multi_step_reward_strategy"`
}

// harborCollect is a command that makes artifacts before they are saved.
type harborCollect struct {
	Command    string  `toml:"command"`
	TimeoutSec float64 `toml:"timeout_sec"`
	Service    string  `toml:"service"`
	User       any     `toml:"user"`
}

// harborEnvironment is where a phase of a task runs.
type harborEnvironment struct {
	harborNetwork

	// set by tasks of earlier versions of Harbor, which say nothing else of the network
	AllowInternet *bool `toml:"allow_internet"`

	Env         map[string]string `toml:"env"`
	DockerImage string            `toml:"docker_image"`
	BuildSec    float64           `toml:"build_timeout_sec"`
	Workdir     string            `toml:"workdir"`
	CPUs        float64           `toml:"cpus"`
	MemoryMB    float64           `toml:"memory_mb"`
	StorageMB   float64           `toml:"storage_mb"`
	Memory      string            `toml:"memory"`
	Storage     string            `toml:"storage"`
	Healthcheck *healthcheck      `toml:"healthcheck"`
	MCPServers  []harborMCP       `toml:"mcp_servers"`
	SkillsDir   string            `toml:"skills_dir"`
}

// harborNetwork is what a phase of a task may reach. Without a mode, or with "public", it is what allow_network
// gives: nothing unless it is asked for.
type harborNetwork struct {
	Mode  string   `toml:"network_mode"`
	Hosts []string `toml:"allowed_hosts"`
}

// Modes of a harborNetwork.
const (
	harborPublic    = "public"
	harborNoNetwork = "no-network"
	harborAllowlist = "allowlist"
)

// unsupported are fields that change a task and that rolloutd does not support: the task would run with
// another meaning.
var unsupported = []string{
	"verifier.user", "environment.os", "environment.gpus",
	"environment.gpu_types", "environment.tpu",
	"verifier.environment.os", "verifier.environment.gpus", "verifier.environment.gpu_types", "verifier.environment.tpu",
	"verifier.environment.healthcheck",
}

// settings reads task.toml into the task, and returns its steps.
func (h *harborReader) settings(t *Task) []harborStep {
	text, err := readFile(h.folder, harborFile, maxSettings)
	if err != nil {
		h.refuse("%s: %v", harborFile, err)
		return nil
	}

	var s harborSettings

	meta, err := toml.Decode(text, &s)
	if err != nil {
		h.refuse("%s: %s", harborFile, strings.TrimPrefix(err.Error(), "toml: "))
		return nil
	}

	if e := &s.Environment; e.Mode == "" && e.AllowInternet != nil && !*e.AllowInternet {
		e.Mode = harborNoNetwork
	}

	h.refuseSettings(text)
	h.noteUnknown(t, meta)

	t.AgentTimeoutS = s.Agent.TimeoutSec
	t.Limits = map[string]any{"verifier_s": cmp.Or(s.Verifier.TimeoutSec, harborVerifierTimeout)}

	if s.Environment.Healthcheck != nil {
		t.Setup = append(t.Setup, h.healthcheck("environment.healthcheck", *s.Environment.Healthcheck))
	}

	h.network(t, s)
	h.verifierEnv = h.variables("verifier.env", s.Verifier.Env)
	h.solutionEnv = h.variables("solution.env", s.Solution.Env)

	s.Environment.Env = h.variables("environment.env", s.Environment.Env)

	compose := h.compose(t, s.Environment.Env)
	if compose != nil {
		compose.environment(&s)
	} else {
		h.dockerfile(t, &s)
	}

	h.separate(t, s)

	if args := h.sandbox(t, s, compose); len(args) > 0 {
		t.Sandbox = args
	}

	if len(s.Steps) > 0 {
		t.RewardStrategy = s.RewardStrategy
	}

	return s.Steps
}

// sandbox returns the sandbox of a task: its image, services, tool servers, variables and sizes.
func (h *harborReader) sandbox(t *Task, s harborSettings, compose *composeReader) map[string]any {
	e := s.Environment

	args := h.image(s)
	if compose != nil {
		compose.addServices(args, s)
	}

	h.mcp(t, args, s)

	if len(e.Env) > 0 {
		args["env"] = e.Env
	}

	disk := cmp.Or(int(e.StorageMB), h.mebibytes("environment.storage", e.Storage))

	set(args, "cpu", e.CPUs)
	set(args, "memory", e.Memory)
	set(args, "memory_mib", int(e.MemoryMB))
	set(args, "disk_mib", disk)

	return args
}

// dockerfile makes the image of environment/Dockerfile that of the task, unless it names one.
func (h *harborReader) dockerfile(t *Task, s *harborSettings) {
	if s.Environment.DockerImage != "" {
		return
	}

	if t.Build = h.build(environmentFolder, dockerfileName, s.Environment.BuildSec); t.Build != nil {
		s.Environment.DockerImage = t.Build.Image
		h.checkWorkdirOf(environmentFolder, dockerfileName, s.Environment)
	}
}

// checkWorkdirOf refuses a Dockerfile whose WORKDIR cannot be that of the sandbox, as its home: a rollout would end without
// a start.
func (h *harborReader) checkWorkdirOf(folder, dockerfile string, e harborEnvironment) {
	file := path.Join(folder, cmp.Or(dockerfile, dockerfileName))

	at := h.workdirOf(file)
	if at == "" || at == "/" || e.Workdir != "" {
		return
	}

	if err := rollout.CheckWorkdir("WORKDIR", at); err != nil {
		h.refuse("%s: %v; use another, such as /app", file, err)
	}
}

// network reads the hosts that setup and agent may reach.
func (h *harborReader) network(t *Task, s harborSettings) {
	all, agent := s.Environment.harborNetwork, s.Agent.harborNetwork
	h.checkNetwork("environment", all)
	h.checkNetwork("agent", agent)
	h.checkNetwork("verifier", s.Verifier.harborNetwork)

	if s.Verifier.Mode == harborAllowlist {
		h.refuse("%s: verifier.network_mode: grading reaches no network, so it must be %q", harborFile, harborNoNetwork)
	}

	if agent.Mode == "" && len(all.Hosts) > 0 {
		t.Network = map[string]any{"allow": all.Hosts}
		return
	}

	if agent.Mode == "" {
		agent = all
	}

	network := map[string]any{}
	all.setPhase(network, "setup")
	agent.setPhase(network, "agent")

	if len(network) > 0 {
		t.Network = network
	}
}

// setPhase sets the hosts of a phase. An empty list means none, even with allow_network; with "public" there is no list.
func (n harborNetwork) setPhase(network map[string]any, phase string) {
	if n.Mode == harborNoNetwork || n.Mode == harborAllowlist {
		network[phase] = append([]string{}, n.Hosts...)
	}
}

func (h *harborReader) checkNetwork(section string, n harborNetwork) {
	switch n.Mode {
	case "", harborPublic, harborNoNetwork:
		if len(n.Hosts) > 0 {
			h.refuse("%s: %s.allowed_hosts: needs network_mode = %q", harborFile, section, harborAllowlist)
		}
	case harborAllowlist:
	default:
		h.refuse("%s: %s.network_mode: must be %s, %s or %s, got %q",
			harborFile, section, harborPublic, harborNoNetwork, harborAllowlist, n.Mode)
	}
}

// template is a value that Harbor takes from the environment of its own process.
var template = regexp.MustCompile(`^\$\{([^}:]+)(:-(.*))?\}$`)

// variables reads environment variables. A value from the environment of the host is refused, since it may
// be a secret and the policy sees it; its default is taken.
func (h *harborReader) variables(field string, given map[string]string) map[string]string {
	env := map[string]string{}

	for name, value := range given {
		if found := template.FindStringSubmatch(value); found != nil {
			if found[2] == "" {
				h.refuse(
					"%s: %s.%s: must be a value that the policy may read, or have it as default (${%s:-value}): a task gets no variable of the host",
					harborFile, field, name, found[1],
				)
			}

			value = found[3]
		}

		env[name] = value
	}

	if err := rollout.CheckEnv(field, env); err != nil {
		h.refuse("%s: %v", harborFile, err)
	}

	return env
}

// exports is a line of shell that sets variables; "": none.
func exports(env map[string]string) string {
	line := ""
	for _, name := range sortedKeys(env) {
		line += "export " + name + "=" + shellQuote(env[name]) + "; "
	}

	return line
}

// mebibytes parses a size with a unit, as older tasks have it: 10G, 1.5G, 512M.
func (h *harborReader) mebibytes(field, size string) int {
	if size == "" {
		return 0
	}

	number, unit := strings.TrimRight(strings.ToUpper(strings.TrimSpace(size)), "BI"), 1.0
	switch {
	case strings.HasSuffix(number, "G"):
		number, unit = number[:len(number)-1], 1024
	case strings.HasSuffix(number, "M"):
		number = number[:len(number)-1]
	case strings.HasSuffix(number, "K"):
		number, unit = number[:len(number)-1], 1.0/1024
	}

	n, err := strconv.ParseFloat(number, 64)
	if n *= unit; err != nil || !(n >= 1 && n <= math.MaxInt32) {
		h.refuse("%s: %s: must be a size such as 10G or 512M, got %q", harborFile, field, size)
		return 0
	}

	return int(n)
}

// image returns the settings of a sandbox with the task's image. The files of environment/ have been built
// into the image.
func (h *harborReader) image(s harborSettings) map[string]any {
	e := s.Environment
	switch {
	case e.DockerImage == "" && e.Workdir != "":
		h.refuse("%s: environment.workdir: needs environment.docker_image or environment/Dockerfile", harborFile)
		fallthrough
	case e.DockerImage == "" && s.Agent.User != nil && s.Agent.User != rollout.UserRoot:
		h.refuse("%s: agent.user: needs environment.docker_image or environment/Dockerfile", harborFile)
		fallthrough
	case e.DockerImage == "":
		return map[string]any{}
	}

	user := rollout.UserOfImage
	if s.Agent.User != nil {
		user = fmt.Sprint(s.Agent.User)
	}

	return map[string]any{
		"image": e.DockerImage, "user": user, "workdir": cmp.Or(e.Workdir, rollout.WorkdirOfImage), "image_env": true,
	}
}

// refuseSettings refuses the unsupported fields.
func (h *harborReader) refuseSettings(text string) {
	var all map[string]any

	meta, err := toml.Decode(text, &all)
	if err != nil {
		// the caller has reported it
		return
	}

	for _, field := range unsupported {
		if meta.IsDefined(strings.Split(field, ".")...) && !blank(all, strings.Split(field, ".")) {
			h.refuse("%s: %s: is not supported", harborFile, field)
		}
	}

	steps, _ := all["steps"].([]map[string]any)
	for n, step := range steps {
		for _, field := range unsupportedInSteps {
			if !blank(step, strings.Split(field, ".")) {
				h.refuse("%s: steps[%d].%s: is not supported", harborFile, n, field)
			}
		}
	}
}

// blank reports whether a field has its default value.
func blank(v any, field []string) bool {
	if len(field) > 0 {
		fields, ok := v.(map[string]any)
		return !ok || blank(fields[field[0]], field[1:])
	}

	text := fmt.Sprint(v)
	switch text {
	case "", "<nil>", "0", "false", "map[]", "[]", "root", "shared":
		return true
	}

	// an os has any case
	return strings.EqualFold(text, "linux")
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
