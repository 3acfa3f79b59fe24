package docker

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"path/filepath"
	"time"

	"github.com/rolloutd/rolloutd/internal/driver"
)

// Labels of a container. An image cannot set them: the driver sets each on every container.
const (
	// the sandbox's id
	labelSandbox = "dev.rolloutd.sandbox"

	// the owner's data folder
	labelOwner = "dev.rolloutd.owner"

	// a state, as JSON
	labelState = "dev.rolloutd.state"

	// the base image of an image that a driver made
	labelImage = "dev.rolloutd.base"
)

// state is the stored description of a sandbox.
type state struct {
	Labels    map[string]string `json:"labels,omitempty"`
	CreatedAt time.Time         `json:"created_at"`

	// initial lease
	Lease     string  `json:"lease"`
	CPU       float64 `json:"cpu"`
	MemoryMiB int     `json:"memory_mib"`
	HomeMiB   int     `json:"home_mib"`
}

func stateOf(spec driver.Spec) state {
	return state{
		Labels: spec.Labels, CreatedAt: time.Now(), Lease: spec.Lease.String(),
		CPU: spec.CPU, MemoryMiB: spec.MemoryMiB, HomeMiB: spec.HomeMiB,
	}
}

// infoOf reads the labels of a container of this owner.
func infoOf(labels map[string]string) (driver.Info, error) {
	var s state

	err := json.Unmarshal([]byte(labels[labelState]), &s)

	return driver.Info{
		ID:        labels[labelSandbox],
		Labels:    s.Labels,
		CreatedAt: s.CreatedAt,
		CPU:       s.CPU,
		MemoryMiB: s.MemoryMiB,
		HomeMiB:   s.HomeMiB,
	}, err
}

// labels returns the labels of the sandbox's container.
func (d *Driver) labels(id string, spec driver.Spec) (map[string]string, error) {
	data, err := json.Marshal(stateOf(spec))
	return map[string]string{labelSandbox: id, labelOwner: d.owner, labelState: string(data)}, err
}

// container returns the name of the sandbox's container.
func (d *Driver) container(id string) string { return "rolloutd-" + d.owner + "-" + id }

// folder returns the folder of the sandbox's control socket. Its name is short, because a socket's address is limited.
func (d *Driver) folder(id string) string {
	sum := sha256.Sum256([]byte(id))
	return filepath.Join(d.o.Dir, hex.EncodeToString(sum[:12]))
}
