package tools

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/docker/go-units"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// noNetwork is the one value of sandbox.network.
const noNetwork = "none"

// sandbox reads what the arguments ask of the sandbox. A backend or an image that the deployment does not have, and a size above the
// operator's bound, are refused here, before the rollout is queued.
func (t *Table) sandbox(a RolloutArgs) (rollout.Sandbox, error) {
	ask := SandboxArgs{}
	if a.Sandbox != nil {
		ask = *a.Sandbox
	}
	s := rollout.Sandbox{Backend: ask.Backend, CPU: ask.CPU, DiskMiB: ask.DiskMiB}
	if ask.Network != "" && ask.Network != noNetwork {
		return s, fault.Field("sandbox.network", `want %q, got %q: no sandbox has a network; the agent reaches the model endpoint `+
			`through the model channel, in mode black_box too`, noNetwork, ask.Network)
	}
	if s.Backend != "" && !slices.Contains(t.o.Backends, s.Backend) {
		return s, fault.Field("sandbox.backend", "want %s, got %q", strings.Join(t.o.Backends, " or "), s.Backend)
	}
	var err error
	if s.Image, err = t.image(a.Template, ask.Image); err != nil {
		return s, err
	}
	if s.MemoryMiB, err = memory(ask); err != nil {
		return s, err
	}
	if t.o.Backends[0] != rollout.DefaultBackend {
		s.Backend = cmp.Or(s.Backend, t.o.Backends[0])
	}
	return s, s.CheckMax(t.o.MaxSandbox[cmp.Or(s.Backend, rollout.DefaultBackend)])
}

// image may be said in two places, but not twice.
func (t *Table) image(template, image string) (string, error) {
	field, name := "sandbox.image", image
	switch {
	case image == "":
		field, name = "template", template
	case template != "" && template != image:
		return "", fault.Field("template", "is %q but sandbox.image is %q: give one of them", template, image)
	}
	if name != "" && !slices.Contains(t.o.Images, name) {
		return "", fault.Field(field, "there is no image %q here: leave it out for the deployment's own", name)
	}
	return name, nil
}

// memory is in MiB; 0: not said.
func memory(ask SandboxArgs) (int, error) {
	if ask.Memory == "" {
		return ask.MemoryMiB, nil
	}
	size := ask.Memory
	if _, err := strconv.ParseFloat(size, 64); err == nil {
		size += "MiB"
	}
	bytes, err := units.RAMInBytes(size)
	if err != nil || bytes < units.MiB {
		return 0, fault.Field("sandbox.memory", `want a size like "2GiB", or a number of MiB; got %q`, ask.Memory)
	}
	mib := int(bytes / units.MiB)
	if ask.MemoryMiB != 0 && ask.MemoryMiB != mib {
		return 0, fault.Field("sandbox.memory", "is %q but sandbox.memory_mib is %d: give one of them", ask.Memory, ask.MemoryMiB)
	}
	return mib, nil
}
