package taskset

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

const testsFolder = "tests"

// Values of verifier.environment_mode.
const (
	modeShared   = "shared"
	modeSeparate = "separate"
)

// separate reads the image in which the verifier runs with the task's artifacts alone, if the task wants that. It is
// that of verifier.environment, else that of tests/Dockerfile, else that of the task.
func (h *harborReader) separate(t *Task, s harborSettings) {
	v, e := s.Verifier, harborEnvironment{}
	mode := v.EnvironmentMode

	if v.Environment != nil {
		e, mode = *v.Environment, cmp.Or(mode, modeSeparate)
	}

	switch {
	case mode != "" && mode != modeShared && mode != modeSeparate:
		h.refuse("%s: verifier.environment_mode: must be %s or %s, got %q", harborFile, modeShared, modeSeparate, mode)
		return
	case mode != modeSeparate && v.Environment != nil:
		h.refuse("%s: verifier.environment: needs environment_mode = %q", harborFile, modeSeparate)
		return
	case mode != modeSeparate && len(v.Collect) > 0:
		h.refuse("%s: verifier.collect: needs environment_mode = %q: without it the verifier gets the whole work", harborFile, modeSeparate)
		return
	case mode != modeSeparate:
		return
	case len(s.Steps) > 0:
		h.refuse("%s: verifier.environment_mode: %s is not supported for a task with steps", harborFile, modeSeparate)
		return
	}

	h.enter = enterFolder(s.Environment.Workdir)
	if v.Environment != nil {
		h.enter = enterFolder(e.Workdir)
	}

	image := h.verifierImage(t, s, e)
	if image == "" {
		return
	}

	artifacts, exclude := h.artifacts(s.Artifacts)
	t.Verifier = map[string]any{"image": image, "artifacts": artifacts}

	if len(exclude) > 0 {
		t.Verifier["exclude"] = exclude
	}

	if collect := h.collect(v.Collect); len(collect) > 0 {
		t.Verifier["collect"] = collect
	}

	env := h.variables("verifier.environment.env", e.Env)
	maps.Copy(env, h.verifierEnv)
	h.verifierEnv = env

	h.checkNetwork("verifier.environment", e.harborNetwork)

	if e.Mode == harborAllowlist {
		h.refuse("%s: verifier.environment.network_mode: grading reaches no network, so it must be %q",
			harborFile, harborNoNetwork)
	}

	h.verifierSize(s.Environment, e)
}

// verifierImage returns the name of the verifier's image, and sets its build.
func (h *harborReader) verifierImage(t *Task, s harborSettings, e harborEnvironment) string {
	if h.has(path.Join(testsFolder, composeName)) {
		h.refuse("%s/%s: services beside the verifier's image are not supported", testsFolder, composeName)
	}

	if e.DockerImage != "" {
		return e.DockerImage
	}

	if t.VerifierBuild = h.build(testsFolder, dockerfileName, cmp.Or(e.BuildSec, s.Environment.BuildSec)); t.VerifierBuild != nil {
		return t.VerifierBuild.Image
	}

	if s.Environment.DockerImage == "" {
		h.refuse("%s: verifier.environment_mode: %s needs an image: verifier.environment.docker_image, %s/Dockerfile or that of the task",
			harborFile, modeSeparate, testsFolder)
	}

	return s.Environment.DockerImage
}

// refuseServices refuses tests that address a service of the task where the verifier has an image of its own, which is the
// task's for want of another. Harbor starts the services beside it, too.
func (h *harborReader) refuseServices(t *Task) {
	if t.Verifier == nil || t.VerifierBuild != nil || t.Verifier["image"] != t.Sandbox["image"] {
		return
	}

	services, _ := t.Sandbox["services"].([]rollout.Service)
	for _, s := range services {
		if anyText(t.TestScript, t.TestFiles, addresses(s.Name).MatchString) {
			h.refuse("%s: verifier.environment_mode: the tests address the service %s, but no service runs beside a verifier with an image of its own; "+
				"without %s, services run beside the tests", harborFile, s.Name, modeSeparate)
		}
	}
}

// addresses finds a name that is a host: in an address, after an option or argument for the host, or before a port.
func addresses(name string) *regexp.Regexp {
	name = regexp.QuoteMeta(name)

	return regexp.MustCompile(`(?://|@|-h\s+|(?i:host\w*)["']?[\s=:]+["']?)` + name + `(?:$|[\s"':/,)])|` +
		`(?:^|[^\w.-])` + name + `(?::|["'],\s*)\d`)
}

// workdirOf returns the WORKDIR of a Dockerfile's image; "": the file does not say.
func (h *harborReader) workdirOf(file string) string {
	text, err := readFile(h.folder, file, maxSettings)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		h.refuse("%s: %v", file, err)
	}

	return workdirIn(text)
}

// verifierSize refuses sizes of the verifier's sandbox above those of the task's, which it has. Where the task has no size
// of its own, its sandbox has that of the server.
func (h *harborReader) verifierSize(task, verifier harborEnvironment) {
	const field = "verifier.environment."

	for _, size := range []struct {
		name       string
		has, wants float64
	}{
		{"cpus", task.CPUs, verifier.CPUs},
		{
			"memory_mb",
			cmp.Or(task.MemoryMB, float64(h.mebibytes("environment.memory", task.Memory))),
			cmp.Or(verifier.MemoryMB, float64(h.mebibytes(field+"memory", verifier.Memory))),
		},
		{
			"storage_mb",
			cmp.Or(task.StorageMB, float64(h.mebibytes("environment.storage", task.Storage))),
			cmp.Or(verifier.StorageMB, float64(h.mebibytes(field+"storage", verifier.Storage))),
		},
	} {
		if size.has != 0 && size.wants > size.has {
			h.refuse("%s: %s%s: the verifier's sandbox has the size of the task's: must be at most environment.%s (%v), got %v",
				harborFile, field, size.name, size.name, size.has, size.wants)
		}
	}
}

// artifacts reads the paths of the files and folders that the verifier's image gets, and what is left out of them. Where
// they are kept afterwards is of no meaning here.
func (h *harborReader) artifacts(given []any) (paths []string, exclude map[string][]string) {
	paths, exclude = []string{rollout.PublishDir}, map[string][]string{}

	for n, a := range given {
		field := fmt.Sprintf("artifacts[%d]", n)
		source, ok := a.(string)

		var patterns []string

		if table, isTable := a.(map[string]any); isTable {
			source, ok = table["source"].(string)
			field += ".source"

			if v := table["service"]; !blank(v, nil) && v != rollout.MainService {
				h.refuse("%s: artifacts[%d].service: is not supported", harborFile, n)
			}

			patterns = h.patterns(fmt.Sprintf("artifacts[%d].exclude", n), table["exclude"])
		}

		switch {
		case !ok:
			h.refuse("%s: %s: must be a path", harborFile, field)
			continue
		case !path.IsAbs(source):
			h.refuse("%s: %s: must be an absolute path, got %q", harborFile, field, source)
			continue
		}

		source = path.Clean(source)
		if err := rollout.CheckArtifact(field, source); err != nil {
			h.refuse("%s: %v", harborFile, err)
		}

		if !slices.Contains(paths, source) {
			paths = append(paths, source)
		}

		if len(patterns) > 0 {
			exclude[source] = patterns
		}
	}

	return paths, exclude
}

// patterns reads a list of texts.
func (h *harborReader) patterns(field string, given any) []string {
	if blank(given, nil) {
		return nil
	}

	list, _ := given.([]any)

	var all []string

	for _, p := range list {
		if text, ok := p.(string); ok {
			all = append(all, text)
		}
	}

	if len(all) != len(list) || len(list) == 0 {
		h.refuse("%s: %s: must be a list of patterns", harborFile, field)
	}

	return all
}

// collect reads the commands that make artifacts in the agent's sandbox.
func (h *harborReader) collect(given []harborCollect) []map[string]any {
	var all []map[string]any

	for n, c := range given {
		field := fmt.Sprintf("verifier.collect[%d]", n)

		switch {
		case strings.TrimSpace(c.Command) == "":
			h.refuse("%s: %s.command: must not be empty", harborFile, field)
		case c.Service != "" && c.Service != rollout.MainService:
			h.refuse("%s: %s.service: must be %s: the services beside the agent have no artifacts, got %q",
				harborFile, field, rollout.MainService, c.Service)
		case c.User != nil:
			h.refuse("%s: %s.user: is not supported: it is the agent's", harborFile, field)
		}

		one := map[string]any{"command": c.Command}
		set(one, "timeout_s", c.TimeoutSec)
		all = append(all, one)
	}

	return all
}

// enterFolder is a line of shell that goes to a folder; "": to that of the image.
func enterFolder(folder string) string {
	if folder == "" {
		return `cd "${` + rollout.ImageWorkdir + `:-/}"; `
	}

	return "cd " + shellQuote(folder) + "; "
}
