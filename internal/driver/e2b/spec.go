package e2b

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"regexp"
	"time"

	"github.com/rolloutd/rolloutd/internal/driver"
	"github.com/rolloutd/rolloutd/internal/driver/nested"
	"github.com/rolloutd/rolloutd/internal/fault"
)

// Metadata of a machine.
const (
	// the sandbox's id
	metaSandbox = "rolloutd_sandbox"

	// the owner's data folder
	metaOwner = "rolloutd_owner"

	// a state, as JSON
	metaState = "rolloutd_state"
)

// state is the stored description of a sandbox.
type state struct {
	Labels    map[string]string `json:"labels,omitempty"`
	CreatedAt time.Time         `json:"created_at"`
	CPU       float64           `json:"cpu"`
	MemoryMiB int               `json:"memory_mib"`
	HomeMiB   int               `json:"home_mib"`
}

// metadata returns the metadata of the sandbox's machine.
func (d *Driver) metadata(id string, spec driver.Spec) (map[string]string, error) {
	data, err := json.Marshal(state{
		Labels:    spec.Labels,
		CreatedAt: time.Now(),
		CPU:       spec.CPU,
		MemoryMiB: spec.MemoryMiB,
		HomeMiB:   spec.HomeMiB,
	})

	return map[string]string{metaSandbox: id, metaOwner: d.owner, metaState: string(data)}, err
}

// infoOf reads the metadata of a machine of this owner.
func infoOf(s apiSandbox) (driver.Info, error) {
	var st state

	err := json.Unmarshal([]byte(s.Metadata[metaState]), &st)

	return driver.Info{
		ID:        s.Metadata[metaSandbox],
		Labels:    st.Labels,
		CreatedAt: st.CreatedAt,
		CPU:       st.CPU,
		MemoryMiB: st.MemoryMiB,
		HomeMiB:   st.HomeMiB,
	}, err
}

// templateName matches an id or an alias of the service, with an optional tag.
var templateName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._/-]{0,127}(:[A-Za-z0-9._-]{1,64})?$`)

// template returns the name of the spec's template. It refuses a spec that a machine cannot have.
func (d *Driver) template(spec driver.Spec) (string, error) {
	name := spec.Image
	if name == "" {
		name = d.o.Template
	}

	switch {
	case spec.User != "":
		return "", fault.Field("user", "%q is not possible on the backend e2b: use the backend local", spec.User)
	case spec.Workdir != "" || len(spec.GradePaths) > 0:
		return "", fault.Field("workdir",
			"folders of an image cannot be the workdir or be graded on the backend e2b: use the backend local")
	case spec.ImageEnv:
		return "", fault.Field("image_env", "is not possible on the backend e2b: use the backend local")
	case len(spec.Env) > 0:
		return "", fault.Field("env", "is not possible on the backend e2b: use the backend local")
	case name == "":
		return "", fault.Field("image", "is needed: the backend e2b has no default template (sandbox.e2b.template)")
	case !templateName.MatchString(name):
		return "", fault.Field("image", "must be the name of a template of E2B, got %q", name)
	}

	return name, nil
}

// checkSizes refuses a spec that exceeds the size of the template's machines.
func checkSizes(spec driver.Spec, s apiSandbox) error {
	switch {
	case s.CPU > 0 && spec.CPU > s.CPU:
		return fault.Field("cpu", "the machines of the template %q have %g cores, but the task needs %g",
			s.Template, s.CPU, spec.CPU)
	case s.MemoryMiB > 0 && spec.MemoryMiB > s.MemoryMiB:
		return fault.Field("memory_mib", "the machines of the template %q have %d MiB, but the task needs %d",
			s.Template, s.MemoryMiB, spec.MemoryMiB)
	}

	return nil
}

// enclosed returns the configuration of package nested.
func (d *Driver) enclosed(id string, spec driver.Spec) (string, error) {
	data, err := json.Marshal(nested.Config{
		ID:        id,
		Lease:     spec.Lease.String(),
		CPU:       spec.CPU,
		MemoryMiB: spec.MemoryMiB,
		HomeMiB:   spec.HomeMiB,
		TmpMiB:    spec.TmpMiB,
		PIDs:      spec.PIDs,
		Filter:    d.filter,
		Verifier:  spec.IsVerifier(),
		TreeBytes: int64(min(spec.HomeMiB, spec.MemoryMiB)) << 20,
	})

	return string(data), err
}

// program is the sandboxd binary and its path in a machine, which depends on the content.
type program struct {
	content []byte
	path    string
}

func readProgram(path string) (program, error) {
	data, err := os.ReadFile(path)
	sum := sha256.Sum256(data)

	return program{content: data, path: nested.Folder + "/sandboxd-" + hex.EncodeToString(sum[:8])}, err
}

// ProgramPath returns the path in a machine of the sandboxd binary at path. A machine whose template has the
// binary at that path starts faster.
func ProgramPath(path string) (string, error) {
	p, err := readProgram(path)
	return p.path, err
}
