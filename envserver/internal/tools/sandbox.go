package tools

import (
	"strconv"

	"github.com/docker/go-units"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// noNetwork is the one value of sandbox.network.
const noNetwork = "none"

// sandbox is what the arguments ask of the place the rollout runs in.
func sandbox(a RolloutArgs) (rollout.Sandbox, error) {
	ask := SandboxArgs{}
	if a.Sandbox != nil {
		ask = *a.Sandbox
	}
	s := rollout.Sandbox{Backend: ask.Backend, CPU: ask.CPU, DiskMiB: ask.DiskMiB}
	if ask.Network != "" && ask.Network != noNetwork {
		return s, fault.Field("sandbox.network", `want %q, got %q: no sandbox has a network; the agent reaches the model endpoint `+
			`through the model channel, in mode black_box too`, noNetwork, ask.Network)
	}
	var err error
	if s.Image, err = image(a.Template, ask.Image); err != nil {
		return s, err
	}
	s.MemoryMiB, err = memory(ask)
	return s, err
}

// image may be said in two places, but not twice.
func image(template, image string) (string, error) {
	switch {
	case image == "":
		return template, nil
	case template != "" && template != image:
		return "", fault.Field("template", "is %q but sandbox.image is %q: give one of them", template, image)
	}
	return image, nil
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
