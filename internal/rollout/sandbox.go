package rollout

import (
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// Values of Sandbox.User that are not the name or the id of an account.
const (
	UserRoot = "root"

	// the USER of the image
	UserOfImage = "image"
)

var accountPattern = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,31}(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,31})?$`)

// IsAccount reports whether the text can be a user of an image: a name or an id, with or without ":" and the
// name or the id of a group.
func IsAccount(text string) bool { return accountPattern.MatchString(text) }

// WorkdirOfImage stands for the WORKDIR of the image.
const WorkdirOfImage = "image"

// maxGradePaths bounds the folders of a sandbox that are graded beside the home.
const maxGradePaths = 16

// CheckImage refuses settings that do not fit a sandbox with the image, or one without.
func (s Sandbox) CheckImage() error {
	if s.Image == "" {
		for _, of := range []struct {
			field string
			set   bool
		}{
			{"user", s.User != ""},
			{"workdir", s.Workdir != ""},
			{"image_env", s.ImageEnv},
			{"grade_paths", len(s.GradePaths) > 0},
		} {
			if of.set {
				return fault.Field("sandbox."+of.field, "needs sandbox.image")
			}
		}
	}

	if s.User != "" && !IsAccount(s.User) {
		return fault.Field("sandbox.user",
			"must be %q, %q (the user that the image names), a name or an id with or without :group, or empty (the user 1000); got %.100q",
			UserRoot, UserOfImage, s.User)
	}

	if err := CheckEnv("sandbox.env", s.Env); err != nil {
		return err
	}

	if len(s.GradePaths) > maxGradePaths {
		return fault.Field("sandbox.grade_paths", "must have at most %d paths, got %d",
			maxGradePaths, len(s.GradePaths))
	}

	for _, p := range s.GradePaths {
		if err := CheckGradePath("sandbox.grade_paths", p); err != nil {
			return err
		}
	}

	if s.Workdir == "" || s.Workdir == WorkdirOfImage {
		return nil
	}

	return CheckWorkdir("sandbox.workdir", s.Workdir)
}

// Backends of sandboxes beside the local one: a container engine's, and the machines of E2B.
const (
	BackendDocker = "docker"
	BackendE2B    = "e2b"
)

// CheckBackend refuses settings that the backend does not support, before a rollout is queued.
func (s Sandbox) CheckBackend(backend string) error {
	switch {
	case len(s.Services) > 0 && backend != DefaultBackend:
		return fault.Field("sandbox.services", "are not possible on the backend %s: use the backend %s", backend, DefaultBackend)
	case backend != BackendE2B:
		return nil
	case s.User != "":
		return fault.Field("sandbox.user", "%q is not possible on the backend %s: use the backend local or docker",
			s.User, backend)
	case s.Workdir != "":
		return fault.Field("sandbox.workdir",
			"a folder of the image cannot be the workdir on the backend %s: use the backend local or docker",
			backend)
	case len(s.GradePaths) > 0:
		return fault.Field("sandbox.grade_paths",
			"folders of the image cannot be graded on the backend %s: use the backend local or docker",
			backend)
	case s.ImageEnv:
		return fault.Field("sandbox.image_env", "is not possible on the backend %s: use the backend local or docker",
			backend)
	case len(s.Env) > 0:
		return fault.Field("sandbox.env", "is not possible on the backend %s: use the backend local or docker", backend)
	}

	return nil
}

// Bounds of a task's variables: their number, and the bytes of all of them.
const (
	maxVariables = 256
	maxEnv       = 64 << 10
)

var variablePattern = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// CheckEnv refuses variables that a process cannot have, and HOME, which is the sandbox's own.
func CheckEnv(field string, env map[string]string) error {
	if len(env) > maxVariables {
		return fault.Field(field, "must have at most %d variables, got %d", maxVariables, len(env))
	}

	size := 0
	for _, name := range slices.Sorted(maps.Keys(env)) {
		size += len(name) + len(env[name])

		switch {
		case !variablePattern.MatchString(name):
			return fault.Field(field, "must have names of letters, digits and '_', got %.100q", name)
		case name == "HOME":
			return fault.Field(field+".HOME", "is the sandbox's own: leave it out")
		case strings.ContainsRune(env[name], 0):
			return fault.Field(field+"."+name, "must not contain a zero byte")
		}
	}

	if size > maxEnv {
		return fault.Field(field, "must have at most %d bytes in all, got %d", maxEnv, size)
	}

	return nil
}

// InHome reports whether a path is the home or below it.
func InHome(p string) bool { return below(Home, p) }

// CheckWorkdir refuses a folder that cannot be the workdir. Besides folders that can be graded it may be the home, or
// one below it that is not rolloutd's own.
func CheckWorkdir(field, p string) error {
	if !InHome(p) {
		return CheckGradePath(field, p)
	}

	if err := checkPath(field, p); err != nil {
		return err
	}

	for _, own := range []string{TestsDir, path.Dir(VerifierDir), Home + "/.local", Home + "/.graded", Home + "/.changed"} {
		if below(own, p) {
			return fault.Field(field, "must be outside %s, which has files of rolloutd; got %s", own, p)
		}
	}

	return nil
}

func checkPath(field, p string) error {
	if !path.IsAbs(p) || path.Clean(p) != p || len(p) > 1000 || strings.ContainsAny(p, "\x00\n") {
		return fault.Field(field, "must be an absolute path such as /app; got %.100q", p)
	}

	return nil
}

// TmpDir is the folder of every user's temporary files.
const TmpDir = "/tmp"

// CheckGradePath refuses a folder that cannot be copied from the agent's sandbox to the verifier's: the
// system's folders have the verifier's programs, and some folders are not part of the image.
func CheckGradePath(field, p string) error {
	if err := checkPath(field, p); err != nil || below(TmpDir, p) {
		return err
	}

	for _, src := range []string{"/usr/src/", "/usr/local/src/"} {
		if strings.HasPrefix(p, src) {
			return nil
		}
	}

	if below(PublishDir, p) || below(LogDir, p) {
		return nil
	}

	for _, folder := range []string{"/", "/home", "/opt", "/var", "/var/lib"} {
		if p == folder {
			return fault.Field(field, "must be a folder below %[1]s, which holds the system's files; got %[1]s", p)
		}
	}

	for _, folder := range []string{
		"/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/proc", "/run", "/sbin",
		"/sys", "/usr", "/var/tmp", "/var/run", "/verifier", "/logs", "/tests", "/opt/rolloutd", Home,
	} {
		if below(folder, p) {
			return fault.Field(field,
				"must be outside the folders of the system and of the sandbox, whose files do not go to the verifier; got %s",
				p)
		}
	}

	return nil
}

// Network lists the hosts that a task's processes may reach: names (example.org), the names below one
// (*.example.org), with or without a port. The setup may reach Allow and Setup, the agent Allow and Agent.
// Grading reaches nothing.
type Network struct {
	Allow []string `json:"allow,omitempty"`
	Setup []string `json:"setup,omitempty"`
	Agent []string `json:"agent,omitempty"`
}

const (
	maxHosts = 1000

	// bytes
	maxHost = 300
)

// ForSetup lists what the setup may reach.
func (n *Network) ForSetup() []string {
	if n == nil {
		return nil
	}

	return slices.Concat(n.Allow, n.Setup)
}

// ForAgent lists what the agent may reach.
func (n *Network) ForAgent() []string {
	if n == nil {
		return nil
	}

	return slices.Concat(n.Allow, n.Agent)
}

// All lists what any phase may reach.
func (n *Network) All() []string {
	if n == nil {
		return nil
	}

	return slices.Concat(n.Allow, n.Setup, n.Agent)
}

func (n *Network) validate() error {
	all := n.All()
	if len(all) > maxHosts {
		return fault.Field("network", "must have at most %d hosts, got %d", maxHosts, len(all))
	}

	for _, host := range all {
		if host == "" || len(host) > maxHost {
			return fault.Field("network", "must have host names of 1 to %d bytes, got %.100q", maxHost, host)
		}
	}

	return nil
}
