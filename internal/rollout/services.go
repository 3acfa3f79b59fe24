package rollout

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// Service is a program that runs in a sandbox of its own beside the agent's, such as a database. Both have one
// loopback network, in which the names of all services mean 127.0.0.1.
type Service struct {
	Name  string `json:"name" jsonschema:"name of the service: its host name in the sandboxes of the rollout"`
	Image string `json:"image" jsonschema:"image of the service"`
	// Entrypoint and Command replace those of the image. An Entrypoint alone drops the image's command.
	Entrypoint []string `json:"entrypoint,omitempty" jsonschema:"program that is started, with its first arguments, in place of the image's"`
	Command    []string `json:"command,omitempty" jsonschema:"arguments of the entrypoint, in place of the image's"`
	// Env are no secrets.
	Env map[string]string `json:"env,omitempty" jsonschema:"environment variables, in addition to those of the image. They must not be secrets"`
	// User is as in Sandbox; "": the image's.
	User       string `json:"user,omitempty" jsonschema:"user of the image. Default: the one that the image names"`
	WorkingDir string `json:"working_dir,omitempty" jsonschema:"folder of the image in which the service starts. Default: the one that the image names"`
	// DependsOn are services that are ready before this one starts.
	DependsOn   []string     `json:"depends_on,omitempty" jsonschema:"names of services that must be ready before this one starts"`
	Healthcheck *Healthcheck `json:"healthcheck,omitempty" jsonschema:"when the service is ready. Default: as soon as it runs"`
	// Once: the service is ready when it has ended with the exit status 0.
	Once    bool     `json:"once,omitempty" jsonschema:"the service does its work and ends: it is ready when it has ended with exit status 0"`
	Volumes []Volume `json:"volumes,omitempty" jsonschema:"folders that the service shares with others"`

	// the defaults are those of a sandbox
	CPU       float64 `json:"cpu,omitempty" jsonschema:"CPU cores; fractions are allowed"`
	MemoryMiB int     `json:"memory_mib,omitempty" jsonschema:"memory of the service with its files, in MiB"`
	DiskMiB   int     `json:"disk_mib,omitempty" jsonschema:"size of the files that the service writes, in MiB"`
}

// Healthcheck is a command in a service's sandbox that succeeds when the service is ready. Times are in seconds; 0: the
// default. Failures within StartPeriod do not count.
type Healthcheck struct {
	Test        []string `json:"test" jsonschema:"program with its arguments, which ends with exit status 0 when the service is ready"`
	Interval    float64  `json:"interval_s,omitempty" jsonschema:"time between two checks, in seconds. Default: 5"`
	Timeout     float64  `json:"timeout_s,omitempty" jsonschema:"longest time of a check, in seconds. Default: 30"`
	Retries     int      `json:"retries,omitempty" jsonschema:"failures in a row after which the service has failed. Default: 3"`
	StartPeriod float64  `json:"start_period_s,omitempty" jsonschema:"time in which failures do not count, in seconds"`
}

// Volume is a folder that begins empty and that several sandboxes of a rollout share.
type Volume struct {
	Name     string `json:"name" jsonschema:"name of the volume"`
	Path     string `json:"path" jsonschema:"absolute path of the folder in the sandbox"`
	ReadOnly bool   `json:"read_only,omitempty" jsonschema:"the folder can only be read"`
}

// Bounds of the services of a rollout.
const (
	MaxServices = 8
	maxVolumes  = 8

	maxServiceArgs = 256
	maxServiceText = 64 << 10

	// MaxServiceStart bounds the time in which all services become ready.
	MaxServiceStart = 5 * time.Minute
)

// MainService is the name of the agent's sandbox among the services.
const MainService = "main"

var (
	// names are host names and parts of the ids of sandboxes
	servicePattern = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,19}$`)
	volumePattern  = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$`)
)

// Filled has the defaults of the zero fields.
func (h Healthcheck) Filled() Healthcheck {
	if h.Interval == 0 {
		h.Interval = 5
	}

	if h.Timeout == 0 {
		h.Timeout = 30
	}

	if h.Retries == 0 {
		h.Retries = 3
	}

	return h
}

// ServiceID is the id of the sandbox of a service beside the sandbox of an id.
func ServiceID(sandboxID, service string) string { return sandboxID + ".s-" + service }

// ServiceNames are the names of the services, joined by commas, for Target.
func (s Sandbox) ServiceNames() string {
	names := make([]string, len(s.Services))
	for i, service := range s.Services {
		names[i] = service.Name
	}

	return strings.Join(names, ",")
}

// ServiceIDs are the ids of the sandboxes of the services beside the sandbox of an id.
func (t Target) ServiceIDs(sandboxID string) []string {
	if t.Services == "" {
		return nil
	}

	ids := strings.Split(t.Services, ",")
	for i, name := range ids {
		ids[i] = ServiceID(sandboxID, name)
	}

	return ids
}

// Sandbox is the sandbox of the service.
func (s Service) Sandbox(backend string) Sandbox {
	user := s.User
	if user == "" {
		user = UserOfImage
	}

	return Sandbox{
		Backend: backend, Image: s.Image, CPU: s.CPU, MemoryMiB: s.MemoryMiB, DiskMiB: s.DiskMiB,
		User: user, ImageEnv: true, Env: s.Env, Volumes: s.Volumes,
	}
}

// StartOrder returns the services so that each comes behind those on which it depends. They must be valid.
func StartOrder(services []Service) []Service {
	ordered := make([]Service, 0, len(services))
	ready := map[string]bool{}

	for len(ordered) < len(services) {
		before := len(ordered)

		for _, s := range services {
			missing := func(name string) bool { return !ready[name] }
			if !ready[s.Name] && !slices.ContainsFunc(s.DependsOn, missing) {
				ready[s.Name] = true
				ordered = append(ordered, s)
			}
		}

		if len(ordered) == before {
			// they depend on each other
			return nil
		}
	}

	return ordered
}

// CheckServices refuses services and volumes that cannot run.
func (s Sandbox) CheckServices() error {
	const field = "sandbox.services"

	switch {
	case len(s.Services) == 0 && len(s.Volumes) > 0:
		return fault.Field("sandbox.volumes", "needs sandbox.services, with which the volumes are shared")
	case len(s.Services) == 0:
		return nil
	case s.Image == "":
		return fault.Field(field, "needs sandbox.image")
	case len(s.Services) > MaxServices:
		return fault.Field(field, "must have at most %d services, got %d", MaxServices, len(s.Services))
	}

	names := map[string]bool{}

	for i, service := range s.Services {
		at := fmt.Sprintf("%s[%d]", field, i)
		if names[service.Name] {
			return fault.Field(at+".name", "%q is the name of two services", service.Name)
		}

		names[service.Name] = true

		if err := service.check(at); err != nil {
			return err
		}
	}

	for i, service := range s.Services {
		for _, other := range service.DependsOn {
			if !names[other] {
				return fault.Field(fmt.Sprintf("%s[%d].depends_on", field, i), "there is no service %.100q", other)
			}
		}
	}

	if StartOrder(s.Services) == nil {
		return fault.Field(field, "must not depend on each other in a circle")
	}

	return checkVolumes("sandbox.volumes", s.Volumes)
}

func (s Service) check(at string) error {
	switch {
	case !servicePattern.MatchString(s.Name):
		return fault.Field(at+".name", "must be 1 to 20 small letters, digits, '_' or '-', got %.100q", s.Name)
	case s.Name == MainService || s.Name == "localhost" || s.Name == "sandbox":
		return fault.Field(at+".name", "%q is the agent's sandbox", s.Name)
	case s.Image == "":
		return fault.Field(at+".image", "must be the name of an image")
	case s.User != "" && !IsAccount(s.User):
		return fault.Field(at+".user", "must be a user of the image, got %.100q", s.User)
	case s.WorkingDir != "" && !cleanAbs(s.WorkingDir):
		return fault.Field(at+".working_dir", "must be an absolute path, got %.100q", s.WorkingDir)
	}

	if err := checkArgs(at+".entrypoint", s.Entrypoint); err != nil {
		return err
	}

	if err := checkArgs(at+".command", s.Command); err != nil {
		return err
	}

	if err := CheckEnv(at+".env", s.Env); err != nil {
		return err
	}

	if err := s.Healthcheck.check(at + ".healthcheck"); err != nil {
		return err
	}

	if s.Once && s.Healthcheck != nil {
		return fault.Field(at+".healthcheck", "must be left out with once: the service is ready when it has ended")
	}

	if err := s.Sandbox("").validate(); err != nil {
		return fault.Wrap(fault.Invalid, err, "%s", at)
	}

	return checkVolumes(at+".volumes", s.Volumes)
}

func checkArgs(field string, args []string) error {
	text := strings.Join(args, "")

	switch {
	case len(args) > maxServiceArgs || len(text) > maxServiceText:
		return fault.Field(field, "must have at most %d arguments with %d bytes", maxServiceArgs, maxServiceText)
	case strings.ContainsRune(text, 0):
		return fault.Field(field, "must not contain a zero byte")
	}

	return nil
}

func (h *Healthcheck) check(field string) error {
	if h == nil {
		return nil
	}

	most := MaxServiceStart.Seconds()

	switch {
	case len(h.Test) == 0 || h.Test[0] == "":
		return fault.Field(field+".test", "must be a program with its arguments")
	case !(h.Interval >= 0 && h.Timeout >= 0 && h.StartPeriod >= 0):
		return fault.Field(field, "must not have negative times")
	case h.Interval > most || h.Timeout > most || h.StartPeriod > most:
		return fault.Field(field, "must have times of at most %g seconds: services become ready within that time", most)
	case h.Retries < 0 || h.Retries > 1000:
		return fault.Field(field+".retries", "must be 1 to 1000, got %d", h.Retries)
	}

	return checkArgs(field+".test", h.Test)
}

func checkVolumes(field string, volumes []Volume) error {
	if len(volumes) > maxVolumes {
		return fault.Field(field, "must have at most %d volumes, got %d", maxVolumes, len(volumes))
	}

	for i, v := range volumes {
		at := fmt.Sprintf("%s[%d]", field, i)
		if !volumePattern.MatchString(v.Name) {
			return fault.Field(at+".name", "must be 1 to 64 letters, digits, '_', '.' or '-', got %.100q", v.Name)
		}

		if err := checkVolumePath(at+".path", v.Path); err != nil {
			return err
		}

		for _, other := range volumes[:i] {
			if below(other.Path, v.Path) || below(v.Path, other.Path) {
				return fault.Field(at+".path", "%s and %s are in each other", v.Path, other.Path)
			}
		}
	}

	return nil
}

// checkVolumePath refuses folders that are the sandbox's own, or in which its programs are.
func checkVolumePath(field, p string) error {
	if !cleanAbs(p) {
		return fault.Field(field, "must be an absolute path such as /data, got %.100q", p)
	}

	for _, own := range []string{
		"/proc", "/sys", "/dev", "/run", "/tmp", "/home/user", "/verifier", "/opt/rolloutd", "/tests", "/logs/verifier",
	} {
		if below(own, p) || below(p, own) {
			return fault.Field(field, "%s is a folder of the sandbox itself", p)
		}
	}

	return nil
}

func cleanAbs(p string) bool {
	return path.IsAbs(p) && path.Clean(p) == p && len(p) <= 1000 && !strings.ContainsAny(p, "\x00\n")
}

// below reports whether a path is the folder, or is in it.
func below(folder, p string) bool {
	return p == folder || strings.HasPrefix(p, strings.TrimSuffix(folder, "/")+"/")
}

// ServiceState is how a service was when its sandbox was last looked at.
type ServiceState struct {
	Name    string `json:"name"`
	Running bool   `json:"running,omitempty"`
	// ExitCode is 128 and the number of the signal that killed it; -1: it runs, or is lost.
	ExitCode int `json:"exit_code"`
	// Log is the end of its output and its errors.
	Log string `json:"log,omitempty"`
}
