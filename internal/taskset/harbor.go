package taskset

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
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
// A task that names an image gets it, as root, with its working directory and its environment variables.
// For others the files of environment/ are put into the working directory. A task that builds an image and
// does not name it is refused.
func readHarbor(folder fs.FS, source string) (Task, error) {
	t := Task{}
	h := harborReader{folder: folder, left: maxHarborBytes}

	h.settings(&t)
	t.Instruction = h.text("instruction.md")
	h.refuseServices()

	if t.Sandbox["image"] == nil {
		t.Files = h.texts(&t, h.environment(), source, "environment", "")
	}

	t.TestFiles = h.texts(&t, h.files("tests"), source, "tests", rollout.TestsDir+"/")
	t.TestScript = withVariables(t.TestFiles["test.sh"], h.verifierEnv)
	delete(t.TestFiles, "test.sh")

	if t.TestScript == "" {
		h.refuse("tests/test.sh: is missing; it must write the reward to %s", rollout.RewardFile)
	}

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

	// variables of the test script, and of solve.sh
	verifierEnv, solutionEnv map[string]string

	// bytes that may still be read
	left  int64
	count int
	errs  []error
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

// texts returns the files that are text. The others become uploads of the task, below a folder of the sandbox.
func (h *harborReader) texts(t *Task, files map[string]string, source, folder, target string) map[string]string {
	texts := map[string]string{}

	for name, content := range files {
		if utf8.ValidString(content) && !strings.ContainsRune(content, 0) {
			texts[name] = content
			continue
		}

		sum := sha256.Sum256([]byte(content))
		digest := hex.EncodeToString(sum[:])

		if t.Uploads == nil {
			t.Uploads = map[string]string{}
		}

		if t.Local == nil {
			t.Local = map[string]string{}
		}

		t.Uploads[target+name] = digest
		t.Local[digest] = filepath.Join(source, folder, filepath.FromSlash(name))
	}

	return texts
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

		content, err := readFile(h.folder, name, h.left)
		if err != nil {
			h.refuse("%s: %v", name, err)
		}

		h.left -= int64(len(content))
		all[strings.TrimPrefix(name, folder+"/")] = content

		return nil
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		h.refuse("%s: %v", folder, err)
	}

	return all
}

// environment returns the files of environment/, which are put into the working directory.
func (h *harborReader) environment() map[string]string {
	if _, err := fs.Stat(h.folder, "environment/Dockerfile"); err == nil {
		h.refuse(
			"environment/Dockerfile: builds an image; build it once (rolloutd image build) and name it in environment.docker_image",
		)

		return nil
	}

	return h.files("environment")
}

// refuseServices refuses a compose file beside an image: its services would not run, so the task could not
// be solved. Without an image environment refuses it.
func (h *harborReader) refuseServices() {
	for _, name := range []string{"docker-compose.yaml", "docker-compose.yml"} {
		if _, err := fs.Stat(h.folder, path.Join("environment", name)); err == nil {
			h.refuse("environment/%s: services beside the task's image are not supported", name)
		}
	}
}

// solution returns commands that write the files of solution/ to one folder and run its solve.sh; none
// without a solution. Where the agent's user may write to /, the folder is also at /solution, as in Harbor.
func (h *harborReader) solution() []string {
	files := h.files("solution")
	if _, ok := files["solve.sh"]; !ok {
		return nil
	}

	const folder = rollout.Home + "/solution"

	var commands []string

	for _, name := range sortedKeys(files) {
		target := shellQuote(path.Join(folder, name))
		data := base64.StdEncoding.EncodeToString([]byte(files[name]))
		commands = append(
			commands,
			fmt.Sprintf("mkdir -p \"$(dirname %[1]s)\" && base64 -d > %[1]s <<< '%[2]s'", target, data),
		)
	}

	return append(commands,
		exports(h.solutionEnv)+"chmod +x "+folder+"/solve.sh; ln -sfn "+folder+" /solution 2> /dev/null; "+
			"if [ -e /solution/solve.sh ]; then exec /solution/solve.sh; else exec "+folder+"/solve.sh; fi")
}

// withVariables sets variables at the start of a script, after its first line if that names its shell.
func withVariables(script string, env map[string]string) string {
	line := exports(env)
	if script == "" || line == "" {
		return script
	}

	if head, rest, ok := strings.Cut(script, "\n"); ok && strings.HasPrefix(head, "#!") {
		return head + "\n" + line + "\n" + rest
	}

	return line + "\n" + script
}

func shellQuote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
