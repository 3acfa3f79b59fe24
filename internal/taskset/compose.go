package taskset

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"mvdan.cc/sh/v3/shell"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

// maxCompose bounds a compose file, in bytes.
const maxCompose = 256 << 10

// composeFile is a compose file with the fields that have a meaning here. Rest has the others.
type composeFile struct {
	Services map[string]composeService `yaml:"services"`
	Volumes  map[string]composeRest    `yaml:"volumes"`
	Networks map[string]composeRest    `yaml:"networks"`
	Rest     composeRest               `yaml:",inline"`
}

// composeRest are fields without a meaning here, by name.
type composeRest map[string]yaml.Node

// composeService is a service of a compose file.
type composeService struct {
	Image       string          `yaml:"image"`
	Build       *composeBuild   `yaml:"build"`
	Entrypoint  composeWords    `yaml:"entrypoint"`
	Command     composeWords    `yaml:"command"`
	Environment composeMap      `yaml:"environment"`
	User        string          `yaml:"user"`
	WorkingDir  string          `yaml:"working_dir"`
	DependsOn   composeDepends  `yaml:"depends_on"`
	Healthcheck *composeHealth  `yaml:"healthcheck"`
	Volumes     []composeVolume `yaml:"volumes"`
	Networks    composeNetworks `yaml:"networks"`
	CPUs        string          `yaml:"cpus"`
	Platform    string          `yaml:"platform"`

	// names that containers have of their own
	ContainerName string `yaml:"container_name"`
	Hostname      string `yaml:"hostname"`

	MemLimit string         `yaml:"mem_limit"`
	Deploy   *composeDeploy `yaml:"deploy"`
	Rest     composeRest    `yaml:",inline"`
}

// Fields that change nothing here: what they describe is outside of the sandboxes, or never happens.
var (
	composeIgnored = []string{"version", "name"}

	serviceIgnored = []string{
		"expose", "ports", "restart", "labels", "annotations", "logging", "pull_policy", "init", "stop_signal",
		"stop_grace_period", "attach", "tty", "stdin_open",
	}
)

// parseCompose reads a compose file with these variables.
func parseCompose(text string, variables map[string]string) (f composeFile, err error) {
	var root yaml.Node
	if err := yaml.Unmarshal([]byte(text), &root); err != nil {
		return f, composeError(err)
	}

	if err := interpolate(&root, variables); err != nil {
		return f, err
	}

	return f, composeError(root.Decode(&f))
}

// composeError is an error of the YAML library in one line.
func composeError(err error) error {
	var types *yaml.TypeError

	switch {
	case err == nil:
		return nil
	case errors.As(err, &types):
		return errors.New(strings.Join(types.Errors, "; "))
	default:
		return errors.New(strings.TrimPrefix(err.Error(), "yaml: "))
	}
}

// composeWords is a command: a list, or a text that is split at spaces as by a shell.
type composeWords []string

// UnmarshalYAML implements yaml.Unmarshaler.
func (w *composeWords) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind == yaml.SequenceNode {
		return n.Decode((*[]string)(w))
	}

	var text string
	if err := n.Decode(&text); err != nil {
		return err
	}

	if strings.ContainsAny(text, "$`") {
		return fmt.Errorf("line %d: must be a list, since it has variables: [sh, -c, %q]", n.Line, text)
	}

	fields, err := shell.Fields(text, func(string) string { return "" })
	if err != nil {
		return fmt.Errorf("line %d: %w", n.Line, err)
	}

	*w = fields

	return nil
}

// composeMap are variables: a map, or a list of NAME=VALUE.
type composeMap map[string]string

// UnmarshalYAML implements yaml.Unmarshaler.
func (m *composeMap) UnmarshalYAML(n *yaml.Node) error {
	*m = composeMap{}

	if n.Kind == yaml.SequenceNode {
		var lines []string
		if err := n.Decode(&lines); err != nil {
			return err
		}

		for _, line := range lines {
			name, value, ok := strings.Cut(line, "=")
			if !ok {
				return fmt.Errorf("line %d: %s: must have a value: a task gets no variable of the host", n.Line, name)
			}

			(*m)[name] = value
		}

		return nil
	}

	var values map[string]*string
	if err := n.Decode(&values); err != nil {
		return err
	}

	for name, value := range values {
		if value == nil {
			return fmt.Errorf("line %d: %s: must have a value: a task gets no variable of the host", n.Line, name)
		}

		(*m)[name] = *value
	}

	return nil
}

// composeBuild is a build context: a path, or a map.
type composeBuild struct {
	Context    string      `yaml:"context"`
	Dockerfile string      `yaml:"dockerfile"`
	Args       composeMap  `yaml:"args"`
	Rest       composeRest `yaml:",inline"`
}

// UnmarshalYAML implements yaml.Unmarshaler.
func (b *composeBuild) UnmarshalYAML(n *yaml.Node) error {
	type plain composeBuild

	if n.Kind == yaml.ScalarNode {
		return n.Decode(&b.Context)
	}

	return n.Decode((*plain)(b))
}

// Conditions of depends_on.
const (
	serviceStarted   = "service_started"
	serviceHealthy   = "service_healthy"
	serviceCompleted = "service_completed_successfully"
)

// composeDepends are conditions by service: a list of services, or a map.
type composeDepends map[string]string

// UnmarshalYAML implements yaml.Unmarshaler.
func (d *composeDepends) UnmarshalYAML(n *yaml.Node) error {
	*d = composeDepends{}

	if n.Kind == yaml.SequenceNode {
		var names []string
		if err := n.Decode(&names); err != nil {
			return err
		}

		for _, name := range names {
			(*d)[name] = serviceStarted
		}

		return nil
	}

	var all map[string]struct {
		Condition string `yaml:"condition"`
	}

	if err := n.Decode(&all); err != nil {
		return err
	}

	for name, of := range all {
		(*d)[name] = cmp.Or(of.Condition, serviceStarted)
	}

	return nil
}

// composeHealth is a health check. Times are as in 1m30s.
type composeHealth struct {
	Test          composeTest `yaml:"test"`
	Interval      string      `yaml:"interval"`
	Timeout       string      `yaml:"timeout"`
	StartPeriod   string      `yaml:"start_period"`
	StartInterval string      `yaml:"start_interval"`
	Retries       int         `yaml:"retries"`
	Disable       bool        `yaml:"disable"`
	Rest          composeRest `yaml:",inline"`
}

// composeTest is the command of a health check: a list that begins with its kind, or a text for a shell.
type composeTest []string

// UnmarshalYAML implements yaml.Unmarshaler.
func (t *composeTest) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind == yaml.SequenceNode {
		return n.Decode((*[]string)(t))
	}

	*t = composeTest{"CMD-SHELL", n.Value}

	return nil
}

// composeVolume is a mount: SOURCE:TARGET:MODE, or a map.
type composeVolume struct {
	Type     string      `yaml:"type"`
	Source   string      `yaml:"source"`
	Target   string      `yaml:"target"`
	ReadOnly bool        `yaml:"read_only"`
	Rest     composeRest `yaml:",inline"`
}

// UnmarshalYAML implements yaml.Unmarshaler.
func (v *composeVolume) UnmarshalYAML(n *yaml.Node) error {
	type plain composeVolume

	if n.Kind == yaml.MappingNode {
		return n.Decode((*plain)(v))
	}

	var text string
	if err := n.Decode(&text); err != nil {
		return err
	}

	parts := strings.Split(text, ":")

	switch {
	case len(parts) == 1:
		v.Target = parts[0]
	case len(parts) == 2 || len(parts) == 3 && (parts[2] == "ro" || parts[2] == "rw"):
		v.Source, v.Target, v.ReadOnly = parts[0], parts[1], len(parts) == 3 && parts[2] == "ro"
	default:
		return fmt.Errorf("line %d: %q: must be a volume such as data:/data or data:/data:ro", n.Line, text)
	}

	v.Type = "volume"
	if strings.HasPrefix(v.Source, ".") || strings.HasPrefix(v.Source, "/") || strings.HasPrefix(v.Source, "~") {
		v.Type = "bind"
	}

	return nil
}

// composeNetworks are networks: a list of names, or a map.
type composeNetworks map[string]composeRest

// UnmarshalYAML implements yaml.Unmarshaler.
func (w *composeNetworks) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind != yaml.SequenceNode {
		return n.Decode((*map[string]composeRest)(w))
	}

	var names []string
	if err := n.Decode(&names); err != nil {
		return err
	}

	*w = composeNetworks{}
	for _, name := range names {
		(*w)[name] = nil
	}

	return nil
}

// composeDeploy has the size of a service.
type composeDeploy struct {
	Resources struct {
		Limits struct {
			CPUs   string      `yaml:"cpus"`
			Memory string      `yaml:"memory"`
			Rest   composeRest `yaml:",inline"`
		} `yaml:"limits"`
		// what a cluster reserves
		Reservations yaml.Node   `yaml:"reservations"`
		Rest         composeRest `yaml:",inline"`
	} `yaml:"resources"`
	Rest composeRest `yaml:",inline"`
}

// composeReader puts the services of a task's compose file into its sandbox.
type composeReader struct {
	*harborReader
	file composeFile

	// path of the file
	path string
	task *Task
}

// composeName is the one name of a compose file that Harbor reads: a docker-compose.yml is a file of the task.
const composeName = "docker-compose.yaml"

// compose reads the compose file of environment/ with the variables of the environment, and returns its services, and what
// it says about the agent's own sandbox. It is nil without a file.
func (h *harborReader) compose(t *Task, env map[string]string) *composeReader {
	name := path.Join(environmentFolder, composeName)

	text, err := readFile(h.folder, name, maxCompose)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}

	c := &composeReader{harborReader: h, path: name, task: t}
	if err == nil {
		c.file, err = parseCompose(text, composeVariables(env))
	}

	if err != nil {
		h.refuse("%s: %v", name, err)
	}

	c.checkTop()

	return c
}

// refuseField refuses a field of the file.
func (c *composeReader) refuseField(field, format string, args ...any) {
	c.refuse("%s: %s: %s", c.path, field, fmt.Sprintf(format, args...))
}

// refuseRest refuses the fields without a meaning here, except for extensions and those that change nothing.
func (c *composeReader) refuseRest(at string, rest composeRest, ignored ...string) {
	for _, name := range sortedKeys(rest) {
		if !strings.HasPrefix(name, "x-") && !slices.Contains(ignored, name) {
			c.refuseField(at+name, "is not supported")
		}
	}
}

func (c *composeReader) checkTop() {
	c.refuseRest("", c.file.Rest, composeIgnored...)

	for _, name := range sortedKeys(c.file.Volumes) {
		c.refuseRest("volumes."+name+".", c.file.Volumes[name], "labels")
	}

	for _, name := range sortedKeys(c.file.Networks) {
		c.refuseRest("networks."+name+".", c.file.Networks[name], "labels", "driver", "internal")
	}

	// all sandboxes of a rollout have one network, so several would hide nothing from anybody
	var all []string

	for _, name := range sortedKeys(c.file.Services) {
		networks := c.file.Services[name].Networks
		for _, network := range sortedKeys(networks) {
			c.refuseRest("services."+name+".networks."+network+".", networks[network])
		}

		names := sortedKeys(networks)
		if len(names) == 0 {
			names = []string{"default"}
		}

		if all != nil && !slices.Equal(all, names) {
			c.refuseField(
				"services."+name+".networks",
				"all services have one network here, so they must name the same",
			)
		}

		all = names
	}
}

// environment adds what the file says about the agent's own sandbox to the settings, where they say nothing.
func (c *composeReader) environment(s *harborSettings) {
	m, at := c.file.Services[rollout.MainService], "services."+rollout.MainService+"."
	c.checkMain(at, m)

	e := &s.Environment
	e.Workdir = cmp.Or(e.Workdir, m.WorkingDir)

	if e.DockerImage == "" {
		if c.task.Build = c.buildOf(at, m.Build, *s); c.task.Build != nil {
			e.DockerImage = c.task.Build.Image
			folder, _ := m.Build.folder()
			c.checkWorkdirOf(folder, c.task.Build.Dockerfile, *e)
		}
	}

	if e.DockerImage = cmp.Or(e.DockerImage, m.Image); e.DockerImage == "" {
		c.dockerfile(c.task, s)
	}

	if e.DockerImage == "" {
		c.refuseField(at+"image", "is missing: a task with services needs an image or a Dockerfile")
	}

	cpu, memory := c.size(at, m)
	e.CPUs = cmp.Or(e.CPUs, cpu)

	if e.Memory == "" {
		e.MemoryMB = cmp.Or(e.MemoryMB, float64(memory))
	}

	if err := rollout.CheckEnv(at+"environment", m.Environment); err != nil {
		c.refuse("%s: %v", c.path, err)
	}

	env := maps.Clone(map[string]string(m.Environment))
	if env == nil {
		env = map[string]string{}
	}

	maps.Copy(env, e.Env)
	e.Env = env
}

// checkMain refuses fields of the agent's own sandbox that are those of the settings, or that have no meaning.
func (c *composeReader) checkMain(at string, m composeService) {
	c.refuseRest(at, m.Rest, serviceIgnored...)
	c.checkPlatform(at, m)

	if !idles(slices.Concat(m.Entrypoint, m.Command)) {
		c.refuseField(
			at+"command",
			"must be left out: the agent is what runs there; start programs in the image of another service",
		)
	}

	if m.User != "" {
		c.refuseField(at+"user", "must be left out: set agent.user of %s", harborFile)
	}

	if m.Healthcheck != nil {
		c.refuseField(at+"healthcheck", "must be left out: set environment.healthcheck of %s", harborFile)
	}

	for _, name := range sortedKeys(m.DependsOn) {
		c.checkCondition(at, name, m.DependsOn[name])
	}
}

// checkPlatform refuses a service of another kind of machine.
func (c *composeReader) checkPlatform(at string, s composeService) {
	const machine = "linux/amd64"
	if s.Platform != "" && s.Platform != machine {
		c.refuseField(at+"platform", "must be %s, got %q", machine, s.Platform)
	}
}

// checkNames refuses names of a container that lead to no service here.
func (c *composeReader) checkNames(at, name string, s composeService) {
	given := map[string]string{"container_name": s.ContainerName, "hostname": s.Hostname}

	for _, field := range sortedKeys(given) {
		if given[field] != "" && given[field] != name {
			c.refuseField(
				at+field, "must be left out or %q: only the names of services lead to them here, got %q", name, given[field],
			)
		}
	}
}

// addServices adds the services and their volumes to the sandbox.
func (c *composeReader) addServices(sandbox map[string]any, s harborSettings) {
	services := c.services(s)
	volumes := c.volumes("services."+rollout.MainService+".", c.file.Services[rollout.MainService].Volumes)

	if len(services) == 0 {
		// nobody shares a volume
		return
	}

	sandbox["services"] = services
	if len(volumes) > 0 {
		sandbox["volumes"] = volumes
	}

	all := rollout.Sandbox{Image: cmp.Or(s.Environment.DockerImage, "unknown"), Services: services, Volumes: volumes}
	if err := all.CheckServices(); err != nil {
		c.refuse("%s: %v", c.path, err)
	}
}

// idles reports whether a command only keeps a container running.
func idles(argv []string) bool {
	text := strings.Join(argv, " ")
	for _, shell := range []string{"sh -c ", "bash -c ", "/bin/sh -c ", "/bin/bash -c "} {
		text = strings.TrimPrefix(text, shell)
	}

	return slices.Contains(
		[]string{"", "sleep infinity", "tail -f /dev/null", "bash", "sh", "/bin/bash", "/bin/sh"},
		text,
	)
}

// services returns the services beside the agent's sandbox, and adds the builds of their images to the task.
func (c *composeReader) services(s harborSettings) []rollout.Service {
	var services []rollout.Service

	once := c.once()

	for _, name := range sortedKeys(c.file.Services) {
		if name != rollout.MainService {
			service := c.service(name, c.file.Services[name], s)
			service.Once = once[name]
			services = append(services, service)
		}
	}

	return services
}

// once are the services that others await the end of.
func (c *composeReader) once() map[string]bool {
	all := map[string]bool{}

	for _, s := range c.file.Services {
		for name, condition := range s.DependsOn {
			if condition == serviceCompleted {
				all[name] = true
			}
		}
	}

	return all
}

// checkCondition refuses a condition of depends_on that would not be awaited.
func (c *composeReader) checkCondition(at, name, condition string) {
	on, ok := c.file.Services[name]
	field := at + "depends_on." + name

	switch {
	case !ok:
		c.refuseField(field, "there is no such service")
	case condition == serviceHealthy && (on.Healthcheck == nil || on.Healthcheck.Disable):
		c.refuseField(field, "%s needs services.%s.healthcheck: that of an image is not read", condition, name)
	case condition != serviceStarted && condition != serviceHealthy && condition != serviceCompleted:
		c.refuseField(field+".condition", "must be %s, %s or %s, got %q",
			serviceStarted, serviceHealthy, serviceCompleted, condition)
	}
}
