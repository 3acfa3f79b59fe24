package taskset

import (
	"cmp"
	"fmt"
	"maps"
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
	} `toml:"agent"`
	Verifier struct {
		TimeoutSec float64 `toml:"timeout_sec"`
	} `toml:"verifier"`
	Environment struct {
		DockerImage string  `toml:"docker_image"`
		Workdir     string  `toml:"workdir"`
		CPUs        float64 `toml:"cpus"`
		MemoryMB    float64 `toml:"memory_mb"`
		StorageMB   float64 `toml:"storage_mb"`
		Memory      string  `toml:"memory"`
		Storage     string  `toml:"storage"`
	} `toml:"environment"`
}

// unsupported are fields that change a task and that rolloutd does not support: the task would run with
// another meaning.
var unsupported = []string{
	"steps", "verifier.environment_mode", "verifier.user", "verifier.env", "verifier.collect",
	"verifier.environment", "solution.env", "environment.env", "environment.os", "environment.gpus",
	"environment.gpu_types", "environment.tpu", "environment.mcp_servers", "environment.skills_dir",
	"environment.healthcheck",
}

// settings reads task.toml into the task.
func (h *harborReader) settings(t *Task) {
	text, err := readFile(h.folder, harborFile, maxSettings)
	if err != nil {
		h.refuse("%s: %v", harborFile, err)
		return
	}

	var s harborSettings
	if _, err := toml.Decode(text, &s); err != nil {
		h.refuse("%s: %s", harborFile, strings.TrimPrefix(err.Error(), "toml: "))
		return
	}

	h.refuseSettings(text)

	t.AgentTimeoutS = s.Agent.TimeoutSec
	if s.Verifier.TimeoutSec != 0 {
		t.Limits = map[string]any{"verifier_s": s.Verifier.TimeoutSec}
	}

	size := h.image(s)
	set(size, "cpu", s.Environment.CPUs)
	set(size, "memory", s.Environment.Memory)
	set(size, "memory_mib", int(s.Environment.MemoryMB))
	set(
		size,
		"disk_mib",
		cmp.Or(int(s.Environment.StorageMB), h.mebibytes("environment.storage", s.Environment.Storage)),
	)

	if len(size) > 0 {
		t.Sandbox = size
	}
}

// mebibytes parses a size with a unit, as older tasks have it: 10G, 512M.
func (h *harborReader) mebibytes(field, size string) int {
	if size == "" {
		return 0
	}

	number, unit := strings.TrimRight(size, "bBiI"), 1
	switch {
	case strings.HasSuffix(strings.ToUpper(number), "G"):
		number, unit = number[:len(number)-1], 1024
	case strings.HasSuffix(strings.ToUpper(number), "M"):
		number = number[:len(number)-1]
	}

	n, err := strconv.Atoi(number)
	if err != nil || n <= 0 {
		h.refuse("%s: %s: must be a size such as 10G or 512M, got %q", harborFile, field, size)
		return 0
	}

	return n * unit
}

// image returns the settings of a sandbox with the task's image. The files of environment/ have been built
// into the image.
func (h *harborReader) image(s harborSettings) map[string]any {
	e := s.Environment
	switch {
	case e.DockerImage == "" && e.Workdir != "":
		h.refuse("%s: environment.workdir: needs environment.docker_image", harborFile)
		fallthrough
	case e.DockerImage == "" && s.Agent.User != nil && s.Agent.User != rollout.UserRoot:
		h.refuse("%s: agent.user: needs environment.docker_image", harborFile)
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
}

// blank says whether a field has its default value.
func blank(v any, field []string) bool {
	if len(field) > 0 {
		fields, ok := v.(map[string]any)
		return !ok || blank(fields[field[0]], field[1:])
	}

	switch fmt.Sprint(v) {
	case "", "0", "false", "map[]", "[]", "linux", "root", "shared":
		return true
	}

	return false
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
