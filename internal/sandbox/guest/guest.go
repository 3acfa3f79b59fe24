// Package guest decides what a sandbox takes from its image beside the files: who the agent is, the workdir, folders to grade, the environment.
package guest

import (
	"path"
	"slices"
	"strings"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/image"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandbox/driver"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

// Guest is what a sandbox takes from its image. The zero value is a sandbox without an image.
type Guest struct {
	Root     bool
	Verifier bool // the root file system is read-only, but for Writable: programs that grade must stay what they are
	Workdir  string
	Graded   []string // further folders that go to the verifier
	Env      wire.BaseEnv
}

// rootPath is where root looks for programs in an image that does not say.
const rootPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Of reads what the spec asks of the image, which is nil where it names none. Where users are not separate the agent cannot be root.
func Of(use *image.Use, spec driver.Spec, separate bool) (Guest, error) {
	g := Guest{Root: spec.Root, Verifier: spec.Labels[driver.LabelPurpose] == driver.PurposeVerifier, Workdir: spec.Workdir}
	switch {
	case use == nil && (g.Root || g.Workdir != "" || spec.ImageEnv || len(spec.GradePaths) > 0):
		return Guest{}, fault.Field("image", "is needed: the user, the workdir, the environment and further folders are those of an image")
	case use == nil:
		return Guest{}, nil
	case g.Root && !separate:
		return g, fault.Field("user", "%q needs a worker that runs as root: an ordinary user has no further user ids", rollout.UserRoot)
	}
	if g.Workdir == rollout.WorkdirOfImage {
		if g.Workdir = use.Image.Workdir; g.Workdir == "/" {
			g.Workdir = ""
		}
	}
	g.Graded = spec.GradePaths
	for _, p := range g.Writable() {
		if err := rollout.CheckGradePath("workdir", p); err != nil {
			return g, err
		}
	}
	g.setEnv(use.Image.Env, spec.ImageEnv)
	return g, nil
}

// Writable are the folders of the image that the verifier's sandbox gets from the agent's.
func (g *Guest) Writable() []string {
	all := slices.Clone(g.Graded)
	if g.Workdir != "" {
		all = append(all, g.Workdir)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// setEnv sets what processes start from: the image's environment where the task wants it.
func (g *Guest) setEnv(env []string, wanted bool) {
	all := map[string]string{}
	if g.Root {
		all["PATH"] = rootPath
	}
	for _, line := range env {
		if name, value, ok := strings.Cut(line, "="); ok && wanted && name != "" && !strings.ContainsRune(line, 0) {
			all[name] = value
		}
	}
	g.Env = wire.BaseEnv{Agent: all, Verifier: g.forVerifier(all)}
}

// forVerifier leaves out what names a folder that holds the agent's files: the verifier must run no program and load no library from there.
func (g *Guest) forVerifier(all map[string]string) map[string]string {
	kept := map[string]string{}
	for name, value := range all {
		switch {
		case name == "PATH":
			var folders []string
			for folder := range strings.SplitSeq(value, ":") {
				if path.IsAbs(folder) && !g.holds(folder) {
					folders = append(folders, folder)
				}
			}
			kept[name] = strings.Join(folders, ":")
		case name == "HOME" || g.holds(value):
		default:
			kept[name] = value
		}
	}
	return kept
}

// holds says whether a value names a folder that the agent writes to.
func (g *Guest) holds(value string) bool {
	for _, folder := range append([]string{wire.AgentHome, "/tmp", "/var/tmp", "/run", "/dev/shm"}, g.Writable()...) {
		if strings.Contains(value, folder) {
			return true
		}
	}
	return false
}

// Agent is sandboxd's name for who the agent is.
func (g *Guest) Agent() string {
	switch {
	case g.Root && g.Verifier:
		return "bare-root"
	case g.Root:
		return "root"
	default:
		return "user"
	}
}

// Supervisor is sandboxd's user id inside.
func (g *Guest) Supervisor() int {
	if g.Root {
		return wire.SupervisorID
	}
	return 0
}
