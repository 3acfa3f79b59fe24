package rollout

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/rolloutd/rolloutd/internal/fault"
)

const (
	// MaxTaskBytes bounds the text of a task without its files: it travels in one workflow payload, which
	// Temporal bounds to 2 MiB.
	MaxTaskBytes = 3 << 19
	// MaxUploadBytes bounds the files of a task, which travel through the store.
	MaxUploadBytes = 256 << 20
	// maxFiles bounds their number.
	maxFiles = 200_000
)

// maxCommands bounds a task's setup and verifier commands: each is a named process, and a sandbox bounds their number.
const maxCommands = 1000

// idPattern leaves dots out: sandbox ids join a rollout id and an attempt number with one.
var idPattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$`)

// agentPattern keeps names of agents usable in paths.
var agentPattern = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,31}$`)

// Validate reports everything that is wrong with the spec, by the names of the tool's arguments. The
// error's kind is Invalid.
func (s Spec) Validate() error {
	var errs []error

	for _, err := range []error{
		CheckID(s.ID), s.Task.validate(), s.validSteps(), s.validAgent(), s.validModel(), s.Model.validSampling(),
		s.Limits.Validate(), s.validCost(), s.Sandbox.validate(), s.validImage(), s.validMCP(),
	} {
		if err != nil {
			errs = append(errs, err)
		}
	}

	if len(errs) == 0 {
		return nil
	}

	var first *fault.Error
	errors.As(errs[0], &first)

	return &fault.Error{Kind: fault.Invalid, Field: first.Field, Msg: joined(errs)}
}

// validImage applies Sandbox.CheckImage, and refuses a verifier's image on a backend that cannot have one.
func (s Spec) validImage() error {
	if s.Task.Verifier.Image != "" && s.Sandbox.Backend == BackendE2B {
		return fault.Field("verifier.image", "is not possible on the backend %s: use the backend local or docker", BackendE2B)
	}

	if err := s.Sandbox.CheckServices(); err != nil {
		return err
	}

	// only root makes room for the tests; what the image names is known to its sandbox alone
	user, _, _ := strings.Cut(s.Sandbox.User, ":")
	if s.Task.Verifier.Shared() && !slices.Contains([]string{UserRoot, UserOfImage, "0"}, user) {
		return fault.Field("verifier.grade",
			"%s is for an agent that changes folders of the system: it needs sandbox.user root, or image for an image whose user is root; got %q",
			GradeShared, s.Sandbox.User)
	}

	return s.Sandbox.CheckImage()
}

// CheckID refuses an invalid rollout id.
func CheckID(id string) error {
	if !idPattern.MatchString(id) {
		return fault.Field("rollout_id",
			"must be 1 to 64 letters, digits, '_' or '-', beginning with a letter or digit, got %q",
			id)
	}

	return nil
}

func (s Spec) validAgent() error {
	switch {
	case !agentPattern.MatchString(s.Agent):
		return fault.Field("agent", "must be the name of an agent such as %q, got %q", AgentOpencode, s.Agent)
	case s.Messages != MessagesDelta && s.Messages != MessagesFull && s.Messages != MessagesNone:
		return fault.Field("messages", "must be %q, %q or %q, got %q", "delta", MessagesFull, MessagesNone, s.Messages)
	case s.Mode != TransparentProxy && s.Mode != BlackBox:
		return fault.Field("mode", "must be %q or %q, got %q", TransparentProxy, BlackBox, s.Mode)
	case s.Agent == AgentOracle && len(s.Task.Solution)+len(s.Task.Steps) == 0:
		return fault.Field("solution", "must have at least one command for the agent %q", AgentOracle)
	case s.Agent == AgentReact && s.Mode == BlackBox:
		return fault.Field("mode",
			"must be %q for the agent %q, which continues from the recorded model calls after a crash; got %q",
			TransparentProxy, AgentReact, s.Mode)
	case s.Agent == AgentReact:
		return s.React.validate()
	case s.Agent == AgentInteractive:
		return s.Episode.validate()
	}

	return nil
}

// validModel accepts a missing model where the agent needs none.
func (s Spec) validModel() error {
	if !NeedsModel(s.Agent) && s.Model.BaseURL == "" && s.Model.Name == "" {
		return nil
	}

	return s.Model.validate()
}

// validCost refuses a bound on the cost without a price, and a negative price.
func (s Spec) validCost() error {
	if s.Limits.Cost > 0 && s.Model.Price == nil {
		return fault.Field("limits.cost",
			"needs the price of the model %q: set the argument price, or the setting prices",
			s.Model.Name)
	}

	if p := s.Model.Price; p != nil && !p.Valid() {
		return fault.Field("price", "prompt, completion and cached_prompt must not be negative")
	}

	return nil
}

// validate checks files in the order of their names: workflows call it, so it must be deterministic.
//
//workflowcheck:ignore
func (t Task) validate() error {
	if strings.TrimSpace(t.Instruction) == "" {
		return fault.Field("instruction", "must be the prompt for the agent, got an empty text")
	}

	if err := t.checkSize(); err != nil {
		return err
	}

	if n := len(t.Setup) + len(t.Verifier.Commands); n > maxCommands {
		return fault.Field("setup", "setup and verify must have at most %d commands together, got %d", maxCommands, n)
	}

	if n := len(t.Solution); n > maxCommands {
		return fault.Field("solution", "must have at most %d commands, got %d", maxCommands, n)
	}

	if err := noneBlank("setup", t.Setup); err != nil {
		return err
	}

	if err := noneBlank("solution", t.Solution); err != nil {
		return err
	}

	for _, name := range slices.Sorted(maps.Keys(t.Files)) {
		if _, err := FilePath(name); err != nil {
			return err
		}
	}

	if err := t.validUploads(); err != nil {
		return err
	}

	_, verifier := t.Split()

	return verifier.validate()
}

// noneBlank refuses empty commands: they succeed in bash, so an empty verifier command would give a reward for nothing.
func noneBlank(field string, commands []string) error {
	for i, cmd := range commands {
		if strings.TrimSpace(cmd) == "" {
			return fault.Field(fmt.Sprintf("%s[%d]", field, i), "must be a bash command, got an empty one")
		}
	}

	return nil
}

// checkSize bounds the parts of the task in the workflow's input, and those in the store.
func (t Task) checkSize() error {
	files, verifier := t.Split()

	n, largest := t.inlineSize(verifier)
	switch uploaded := sizeOf(files); {
	case n > MaxTaskBytes:
		return fault.Field(largest,
			"instruction, setup, solution, steps and verifier with its files must be at most %d bytes together, got %d",
			MaxTaskBytes, n)
	case uploaded > MaxUploadBytes:
		return fault.Field("upload_files", "must be at most %d bytes together, got %d", MaxUploadBytes, uploaded)
	case len(files)+len(t.Uploads) > maxFiles:
		return fault.Field("upload_files", "must have at most %d files, got %d", maxFiles, len(files)+len(t.Uploads))
	}

	return t.FilesRef.checkArchive("files_ref")
}

// checkArchive refuses a key that is not of an archive of task files: nothing else in the store may be
// staged in a sandbox.
func (r *Ref) checkArchive(field string) error {
	if r != nil && !taskFilesKey.MatchString(r.Key) {
		return fault.Field(field, "must be the key of a task's archive, got %q", r.Key)
	}

	return nil
}

// inlineSize is the size of the task in the workflow's input, and the argument that is the largest part of it.
func (t Task) inlineSize(v Verifier) (sum int, largest string) {
	most := -1

	for _, part := range []struct {
		field string
		size  int
	}{
		{"instruction", len(t.Instruction)}, {"setup", len(strings.Join(t.Setup, ""))},
		{"solution", len(strings.Join(t.Solution, ""))}, {"test_script", len(v.Script)},
		{"test_files", sizeOf(v.Files)}, {"verify", len(strings.Join(v.Commands, ""))},
		{"steps", t.stepsSize()},
	} {
		sum += part.size
		if part.size > most {
			most, largest = part.size, part.field
		}
	}

	return sum, largest
}

// stepsSize is the size of the steps in the workflow's input.
func (t Task) stepsSize() (sum int) {
	for _, s := range t.Steps {
		_, v := s.Task.Split()
		n, _ := s.Task.inlineSize(v)
		sum += len(s.Name) + n
	}

	return sum
}

// sizeOf sums the names and texts of files.
//
//workflowcheck:ignore
func sizeOf(files map[string]string) (n int) {
	for name, text := range files {
		n += len(name) + len(text)
	}

	return n
}

// taskFilesKey is what a FilesRef may point at.
var taskFilesKey = regexp.MustCompile(`^tasks/[0-9a-f]{64}\.tar$`)

// TaskFilesKey is where the archive of a task's files is stored; digest is its SHA-256 in hex.
func TaskFilesKey(digest string) string { return "tasks/" + digest + ".tar" }

// FilePath is the path of a file of Task.Files in the sandbox: relative names are below Workdir. A name
// that leads out of Home, or names no file, is Invalid.
func FilePath(name string) (string, error) {
	full := name
	if !path.IsAbs(name) {
		full = Workdir + "/" + name
	}

	clean := path.Clean(full)
	switch {
	case name == "" || strings.HasSuffix(name, "/") || strings.ContainsRune(name, 0):
		return "", fault.Field("upload_files", "must have paths of files, got %q", name)
	case !strings.HasPrefix(clean, Home+"/") || clean == Workdir:
		return "", fault.Field("upload_files", "must have paths below %s (relative ones are below %s), got %q",
			Home, Workdir, name)
	}

	return clean, nil
}

func (m Model) validate() error {
	switch {
	case m.BaseURL == "":
		return fault.Field("base_url", "must be the URL of a model endpoint when endpoint is not set")
	case m.Name == "":
		return fault.Field("model", "must be the name of a model")
	}

	return cmp.Or(m.Continuation.Validate(), m.UserTurn.Validate(), m.OnEngineFault.Validate(), m.Translate.validate())
}

func (s Sandbox) validate() error {
	// sums of them do not overflow; operators set lower bounds
	const mostCPU, mostMiB = 1 << 12, 1 << 24
	// the least CPU share of the kernel; the least memory in which sandboxd starts
	const leastCPU, leastMiB = 0.01, 64
	switch {
	case !(s.CPU >= 0 && s.MemoryMiB >= 0 && s.DiskMiB >= 0):
		return fault.Field("sandbox", "cpu, memory_mib and disk_mib must not be negative")
	case s.CPU != 0 && s.CPU < leastCPU, s.MemoryMiB != 0 && s.MemoryMiB < leastMiB:
		return fault.Field("sandbox", "cpu must be at least %g and memory_mib at least %d", leastCPU, leastMiB)
	case s.CPU > mostCPU || s.MemoryMiB > mostMiB || s.DiskMiB > mostMiB:
		return fault.Field("sandbox", "cpu must be at most %d, memory_mib and disk_mib at most %d", mostCPU, mostMiB)
	}

	return s.Network.validate()
}

func joined(errs []error) string {
	texts := make([]string, len(errs))
	for i, err := range errs {
		texts[i] = err.Error()
	}

	return strings.Join(texts, "; ")
}
