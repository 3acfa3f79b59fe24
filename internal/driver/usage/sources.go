// Package usage reads what a sandbox used: the counters of its cgroups, and which of its file systems are full.
package usage

import (
	"golang.org/x/sys/unix"

	"github.com/rolloutd/rolloutd/internal/driver"
)

// Path is where sandboxd answers with a driver.Usage, for drivers that cannot read it from outside.
const Path = "/v1/usage"

// Sources say where sandboxd reads the usage of its sandbox. Nothing that runs in the sandbox can write there.
type Sources struct {
	Counters Counters `json:"counters"`

	// mount points that can be written to
	Folders []string `json:"folders"`
}

// Read reads the usage up to now.
func (s Sources) Read() driver.Usage {
	u := s.Counters.Read()

	root, err := unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return u
	}
	defer unix.Close(root)

	u.FullFolders = FullFolders(root, s.Folders)

	return u
}
