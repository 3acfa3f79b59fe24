// Package imageconfig determines what a sandbox takes from its image besides the files: the agent's user,
// the workdir, graded folders, the environment.
package imageconfig

import (
	"io/fs"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/rolloutd/rolloutd/internal/driver"
	"github.com/rolloutd/rolloutd/internal/driver/launcher"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/image"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandboxd/runas"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

// Guest is what a sandbox takes from its image. The zero value is a sandbox without an image.
type Guest struct {
	// Account is the agent's user in the image; nil: the user 1000.
	Account *wire.Account

	// the root file system except Writable is read-only, so that no grading program can be changed
	Verifier bool

	// OwnImage is a verifier in an image of its own, which it may change: it is read-only for the work alone.
	OwnImage bool

	// without links
	Workdir string

	// the path by which the task or the image names the workdir
	named string

	// further folders that are copied to the verifier
	Graded []string
	// Changed are folders that the agent changed elsewhere; "": the verifier does not get it.
	Changed []string
	Env     wire.BaseEnv

	// names of 127.0.0.1, and folders of volumes
	Hosts, Volumes []string
}

// rootPath is root's PATH in an image that sets none.
const rootPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Image describes an image.
type Image struct {
	Env           []string
	Workdir, User string
	Files         Files
}

// Files are those of an image. FirstNoFolder returns the first part of a path that exists in the image and
// is not a folder, and its type; "": none. Resolve follows the links of a path. ReadFile reads a regular file; fs.ErrNotExist:
// there is none; fault.Invalid: it is too long. HoldsPrograms is launcher.HoldsPrograms of the image.
type Files interface {
	FirstNoFolder(path string) (string, fs.FileMode, error)
	Resolve(path string) (string, error)
	ReadFile(path string, most int64) ([]byte, error)
	HoldsPrograms(path string) (bool, error)
}

// Stored returns an image of the store; nil for nil.
func Stored(use *image.Use) *Image {
	if use == nil {
		return nil
	}

	return &Image{Env: use.Image.Env, Workdir: use.Image.Workdir, User: use.Image.User, Files: stored{use}}
}

// stored are the files of an image of the store.
type stored struct{ *image.Use }

// Resolve implements Files.
func (s stored) Resolve(p string) (string, error) {
	at, err := s.Use.Resolve(p)
	return path.Join("/", at), err
}

// HoldsPrograms implements Files.
func (s stored) HoldsPrograms(p string) (bool, error) {
	for _, layer := range s.Layers {
		if holds, err := launcher.HoldsPrograms(layer, p); holds || err != nil {
			return holds, err
		}
	}

	return false, nil
}

// Of resolves the spec's fields about the image, which is nil if the spec names none. If users are not
// separate, the agent cannot be root.
func Of(use *Image, spec driver.Spec, separate bool) (Guest, error) {
	if use == nil {
		return plainGuest(spec)
	}

	if spec.User != "" && !separate {
		return Guest{}, fault.Field("user",
			"%q needs a worker that runs as root: an ordinary user cannot map further user ids", spec.User)
	}

	account, err := accountOf(use, spec.User)
	if err != nil {
		return Guest{}, err
	}

	g := Guest{
		Account:  account,
		Verifier: spec.IsVerifier(),
		OwnImage: spec.IsVerifier() && separate && spec.Env[runas.OwnImage] == "1",
		Workdir:  spec.Workdir,
		Hosts:    spec.Hosts,
		Graded:   spec.GradePaths,
	}
	for _, v := range spec.Volumes {
		g.Volumes = append(g.Volumes, v.Path)
	}

	if g.Workdir == rollout.WorkdirOfImage {
		if g.Workdir = use.Workdir; g.Workdir == "/" {
			g.Workdir = ""
		}
	}

	if err := g.resolveWorkdir(use.Files); err != nil {
		return g, err
	}

	if err := g.CheckFolders(use.Files.FirstNoFolder); err != nil {
		return g, err
	}

	g.setEnv(use.Env, spec)

	if !g.Verifier {
		return g, nil
	}

	if path.IsAbs(use.Workdir) && !strings.ContainsRune(use.Workdir, 0) {
		g.Env.Verifier[rollout.ImageWorkdir] = use.Workdir
	}

	g.Changed, err = g.gradable(spec.Changed, use)

	return g, err
}

// plainGuest is that of a sandbox without an image.
func plainGuest(spec driver.Spec) (g Guest, err error) {
	if spec.User != "" || spec.Workdir != "" || spec.ImageEnv || len(spec.GradePaths) > 0 {
		return g, fault.Field("image",
			"is needed: the user, the workdir, the environment and further folders are those of an image")
	}

	g.setEnv(nil, spec)

	return g, nil
}

// resolveWorkdir follows the links by which the image reaches the workdir, as a container does.
func (g *Guest) resolveWorkdir(files Files) error {
	if g.Workdir == "" {
		return nil
	}

	if err := rollout.CheckWorkdir("workdir", g.Workdir); err != nil {
		return err
	}

	at, err := files.Resolve(g.Workdir)
	if err != nil {
		return fault.Wrap(fault.Unavailable, err, "look for %s in the image", g.Workdir)
	}

	g.named, g.Workdir = g.Workdir, at

	return nil
}

// gradable keeps the folders that the verifier gets. Its programs, and what these load, must not come from
// a folder that the agent has changed: neither one of the system, nor one that a variable names, nor one in
// which the image has programs.
func (g *Guest) gradable(changed []string, use *Image) ([]string, error) {
	kept := make([]string, len(changed))

	for n, p := range changed {
		if rollout.CheckGradePath("", p) != nil || slices.Contains(g.Writable(), p) || namesFolder(g.Env.Agent, p) {
			continue
		}

		programs, err := use.Files.HoldsPrograms(p)
		if err != nil {
			return nil, fault.Wrap(fault.Unavailable, err, "look for programs in %s of the image", p)
		}

		if !programs {
			kept[n] = p
		}
	}

	return kept, nil
}

// namesFolder reports whether a variable names the folder, or something below it.
func namesFolder(env map[string]string, folder string) bool {
	for _, value := range env {
		if strings.Contains(value, folder) {
			return true
		}
	}

	return false
}

// CheckFolders refuses folders that cannot be copied to the verifier, and paths through a link or a file of
// the image. firstNoFolder returns the first part of a path that exists in the image and is not a folder,
// and its type; "": none.
func (g *Guest) CheckFolders(firstNoFolder func(p string) (string, fs.FileMode, error)) error {
	for _, p := range g.folders() {
		field, check := "workdir", rollout.CheckWorkdir
		if p != g.Workdir {
			field, check = "grade_paths", rollout.CheckGradePath
		}

		if err := check(field, p); err != nil {
			return err
		}

		at, mode, err := firstNoFolder(p)
		switch {
		case err != nil:
			return fault.Wrap(fault.Unavailable, err, "look for %s in the image", p)
		case mode == fs.ModeSymlink:
			return fault.Field(field, "%s is a link in the image; name the folder itself", at)
		case at != "":
			return fault.Field(field, "%s of the image is not a folder", at)
		}
	}

	return nil
}

// Writable returns the folders of the image that the verifier's sandbox gets from the agent's beside the home.
func (g *Guest) Writable() []string {
	return slices.DeleteFunc(g.folders(), rollout.InHome)
}

// folders returns the workdir and the further graded folders.
func (g *Guest) folders() []string {
	all := slices.Clone(g.Graded)
	if g.Workdir != "" {
		all = append(all, g.Workdir)
	}

	slices.Sort(all)

	return slices.Compact(all)
}

// Names returns the folders of the image with their further names in the home, with which they are copied to the
// verifier: name → folder. A workdir in the home has no further name.
func (g *Guest) Names() map[string]string {
	all := map[string]string{}
	if g.Workdir != "" && !rollout.InHome(g.Workdir) {
		all[wire.AgentWorkdir] = g.Workdir
	}

	for n, p := range g.Graded {
		all[wire.AgentGraded+"/"+strconv.Itoa(n)] = p
	}

	return all
}

// setEnv sets the base environment of processes: the image's if the task wants it, and the task's.
func (g *Guest) setEnv(env []string, spec driver.Spec) {
	all := map[string]string{}
	if g.IsRoot() {
		all["PATH"] = rootPath
	}

	for _, line := range env {
		if name, value, ok := strings.Cut(
			line,
			"=",
		); ok && spec.ImageEnv && name != "" &&
			!strings.ContainsRune(line, 0) {
			all[name] = value
		}
	}

	maps.Copy(all, spec.Env)

	g.Env = wire.BaseEnv{Agent: all, Verifier: g.forVerifier(all)}
}

// forVerifier removes variables that name a folder with the agent's files: the verifier must not run
// programs or load libraries from there. It also removes those that make a shell run other commands than
// its script has.
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
		case name == "HOME" || changesShell(name) || g.holds(value):
		default:
			kept[name] = value
		}
	}

	return kept
}

// shellVariables make a shell run commands, or run its script in another way.
var shellVariables = []string{
	"BASH_ENV", "ENV", "ZDOTDIR", "PROMPT_COMMAND", "PS0", "PS1", "PS2", "PS4", "SHELLOPTS", "BASHOPTS",
	"BASH_COMPAT", "POSIXLY_CORRECT", "BASH_XTRACEFD", "BASH_LOADABLES_PATH", "IFS", "GLOBIGNORE",
	"EXECIGNORE", "CDPATH", "FUNCNEST", "TMOUT",
}

// changesShell reports whether a variable is one of shellVariables, or a function that bash takes from its environment.
func changesShell(name string) bool {
	return strings.HasPrefix(name, "BASH_FUNC_") || slices.Contains(shellVariables, name)
}

// holds reports whether a value names a folder that the agent can write to.
func (g *Guest) holds(value string) bool {
	for _, folder := range append([]string{wire.AgentHome, "/tmp", "/var/tmp", "/run", "/dev/shm", g.named}, g.Writable()...) {
		if folder != "" && strings.Contains(value, folder) {
			return true
		}
	}

	return false
}

// Agent returns the arguments of sandboxd for the agent's user and the workdir.
func (g *Guest) Agent() []string {
	var args []string
	if g.Workdir != "" {
		args = append(args, "--start-in", g.Workdir)
	}

	if rollout.InHome(g.Workdir) {
		args = append(args, "--workdir", g.Workdir)
	}

	if g.Account == nil {
		return args
	}

	return append(args, "--agent", g.Account.String(), "--bare="+strconv.FormatBool(g.Verifier))
}

// IsRoot reports whether the agent is root of the image.
func (g *Guest) IsRoot() bool { return g.Account != nil && g.Account.UID == 0 }

// Supervisor returns sandboxd's user id in the sandbox.
func (g *Guest) Supervisor() int {
	if g.Account != nil {
		return wire.SupervisorID
	}

	return 0
}
