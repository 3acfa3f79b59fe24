package taskset

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"unicode/utf8"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// Bounds of a Harbor task's folder.
const (
	maxHarborFiles = 10_000
	maxHarborBytes = 64 << 20
)

// readHarbor reads a Harbor task: task.toml, instruction.md, environment/, tests/ and solution/.
//
// A task that names an image gets it, as root, with its working directory and its environment variables. For others the files of environment/
// are put into the working directory. A task that builds an image and does not name it is refused.
func readHarbor(folder fs.FS, source string) (Task, error) {
	t := Task{}
	h := harborReader{folder: folder, left: maxHarborBytes}
	h.settings(&t)
	t.Instruction = h.text("instruction.md")
	if t.Sandbox["image"] == nil {
		t.Files = h.environment()
	}
	t.TestFiles = h.files("tests")
	t.TestScript = t.TestFiles["test.sh"]
	delete(t.TestFiles, "test.sh")
	h.checkTests(t)
	t.Solution = h.solution()
	if err := errors.Join(h.errs...); err != nil {
		return Task{}, at(source, err)
	}
	if err := t.check(nil); err != nil {
		return Task{}, at(source, err)
	}
	return t, nil
}

// harborReader reads the files of one task and collects the errors.
type harborReader struct {
	folder fs.FS
	left   int64 // bytes that may still be read
	count  int
	errs   []error
}

func (h *harborReader) refuse(format string, args ...any) {
	h.errs = append(h.errs, fault.New(fault.Invalid, format, args...))
}

// text reads a text file, which must be UTF-8: a task is sent as JSON.
func (h *harborReader) text(name string) string {
	text, err := readFile(h.folder, name, h.left)
	h.left -= int64(len(text))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		h.refuse("%s: is missing", name)
	case err != nil:
		h.refuse("%s: %v", name, err)
	case !utf8.ValidString(text):
		h.refuse("%s: must be text in UTF-8", name)
	}
	return text
}

// files reads all files below a folder, by their path in it; none if the folder does not exist.
func (h *harborReader) files(folder string) map[string]string {
	all := map[string]string{}
	err := fs.WalkDir(h.folder, folder, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if h.count++; h.count > maxHarborFiles {
			return fmt.Errorf("must have at most %d files", maxHarborFiles)
		}
		all[strings.TrimPrefix(name, folder+"/")] = h.text(name)
		return nil
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		h.refuse("%s: %v", folder, err)
	}
	return all
}

// environment returns the files of environment/, which are put into the working directory.
func (h *harborReader) environment() map[string]string {
	for _, name := range []string{"Dockerfile", "docker-compose.yaml", "docker-compose.yml"} {
		if _, err := fs.Stat(h.folder, path.Join("environment", name)); err == nil {
			h.refuse("environment/%s: builds an image; build it once (rolloutd image build) and name it in environment.docker_image", name)
			return nil
		}
	}
	return h.files("environment")
}

func (h *harborReader) checkTests(t Task) {
	switch {
	case t.TestScript == "":
		h.refuse("tests/test.sh: is missing; it must write the reward to %s", rollout.RewardFile)
	case strings.Contains(t.TestScript, "reward.json"):
		h.refuse("tests/test.sh: must write the reward to %s, got reward.json", rollout.RewardFile)
	}
}

// solution returns commands that write the files of solution/ to one folder and run solve.sh; none without a solution.
func (h *harborReader) solution() []string {
	files := h.files("solution")
	solve, ok := files["solve.sh"]
	if !ok {
		return nil
	}
	delete(files, "solve.sh")
	var commands []string
	for _, name := range sortedKeys(files) {
		target := shellQuote(path.Join(rollout.Home, "solution", name))
		data := base64.StdEncoding.EncodeToString([]byte(files[name]))
		commands = append(commands, fmt.Sprintf("mkdir -p \"$(dirname %[1]s)\" && base64 -d > %[1]s <<< %[2]s", target, data))
	}
	return append(commands, solve)
}

func shellQuote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
