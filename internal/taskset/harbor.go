package taskset

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// Bounds of a Harbor task's folder.
const (
	maxHarborFiles = 10_000
	maxHarborBytes = 64 << 20

	// bounds solutions and tests in the task itself, which leaves room for its instructions
	maxInline = rollout.MaxTaskBytes - 256<<10
)

// readHarbor reads a Harbor task: task.toml, instruction.md, environment/, tests/ and solution/, or the same for each
// step below steps/.
//
// A task that names an image, or has a Dockerfile, gets the image, as root, with its working directory and its
// environment variables. Without a Dockerfile and a compose file, the files of environment/ are put into the working
// directory.
func readHarbor(folder fs.FS, source string) (Task, error) {
	t := Task{Uploads: map[string]string{}, Local: map[string]string{}}
	h := harborReader{
		folder: folder, source: source, local: t.Local, folders: map[string]map[string]string{}, left: maxHarborBytes,
		inline: maxInline,
	}

	steps := h.settings(&t)

	if !h.has(environmentFolder+"/"+dockerfileName) && !h.has(environmentFolder+"/"+composeName) {
		// these are kept beside the task in any case
		t.Files = h.texts(t.Uploads, environmentFolder, h.files(environmentFolder), "")
	}

	if len(steps) > 0 {
		h.steps(&t, steps)
	} else {
		t.Instruction = h.instruction("")
		t.Solution = h.solution(&t, "solution")
		t.TestScript, t.TestFiles = h.tests(t.Uploads, h.verifierEnv, "tests")
		t.RewardRange = rollout.AnyReward()
	}

	h.gradeOutside(&t)
	h.refuseServices(&t)
	h.checkOwnFolder(&t)

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

	// path of the folder on this machine
	source string

	// Task.Local
	local map[string]string

	// folders that were read
	folders map[string]map[string]string

	// variables of the test script, and of solve.sh
	verifierEnv, solutionEnv map[string]string

	// a line of shell with which the test script goes to where it starts; "": it is there
	enter string

	// instructions and files of solutions, which say where the work is
	asked []string

	// bytes of solutions and tests that may still be in the task itself
	inline int

	// bytes that may still be read
	left  int64
	count int
	errs  []error
}

// instruction reads the instruction in a folder. It refuses an earlier conversation beside it, with which the agent would
// begin.
func (h *harborReader) instruction(folder string) string {
	const earlier = "trajectory.json"
	if h.has(path.Join(folder, earlier)) {
		h.refuse("%s: is not supported: the agent begins without an earlier conversation", path.Join(folder, earlier))
	}

	text := withoutCanary(h.text(path.Join(folder, "instruction.md")))
	h.asked = append(h.asked, text)

	return text
}

// has reports whether the task has a file.
func (h *harborReader) has(name string) bool {
	_, err := fs.Stat(h.folder, name)
	return err == nil
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

// texts returns the files of a folder that are text. The others become uploads, below a folder of the sandbox.
func (h *harborReader) texts(uploads map[string]string, folder string, files map[string]string, target string) map[string]string {
	texts := map[string]string{}

	for name, content := range files {
		if utf8.ValidString(content) && !strings.ContainsRune(content, 0) {
			texts[name] = content
		} else {
			uploads[target+name] = h.upload(path.Join(folder, name), content)
		}
	}

	return texts
}

// inlined is texts with only those files that fit into the task. The largest become uploads.
func (h *harborReader) inlined(uploads map[string]string, folder string, files map[string]string, target string) map[string]string {
	texts := h.texts(uploads, folder, files, target)
	bySize := slices.SortedFunc(maps.Keys(texts), func(a, b string) int {
		return cmp.Or(len(texts[a])-len(texts[b]), strings.Compare(a, b))
	})

	for _, name := range bySize {
		size := len(name) + len(texts[name])

		switch {
		case name == testScript:
		case size > h.inline:
			uploads[target+name] = h.upload(path.Join(folder, name), texts[name])
			delete(texts, name)
		default:
			h.inline -= size
		}
	}

	return texts
}

// upload has a client send a file before the task, and returns its digest.
func (h *harborReader) upload(name, content string) string {
	sum := sha256.Sum256([]byte(content))
	digest := hex.EncodeToString(sum[:])
	h.local[digest] = filepath.Join(h.source, filepath.FromSlash(name))

	return digest
}

// files reads all files below a folder, by their path in it; none if the folder does not exist. Steps share folders,
// so each is read once.
func (h *harborReader) files(folder string) map[string]string {
	if read, ok := h.folders[folder]; ok {
		return read
	}

	all := map[string]string{}
	h.folders[folder] = all

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

// tests returns the test script, with its variables, and the files of the folders. A file of a later folder takes the
// place of one of the same name.
func (h *harborReader) tests(
	uploads, env map[string]string,
	folders ...string,
) (script string, texts map[string]string) {
	texts = map[string]string{}

	for _, folder := range folders {
		files := h.files(folder)
		for name := range files {
			delete(texts, name)
			delete(uploads, rollout.TestsDir+"/"+name)
		}

		maps.Copy(texts, h.inlined(uploads, folder, files, rollout.TestsDir+"/"))
	}

	name := folders[len(folders)-1] + "/" + testScript
	script = withLine(texts[testScript], h.shellOptions(name, texts[testScript])+exports(env)+h.enter)
	delete(texts, testScript)

	if script == "" {
		h.refuse("%s: is missing; it must write the reward to /logs/verifier/reward.txt (%s in a task without an image)",
			name, rollout.RewardFile)
	}

	return script, texts
}

// Files that Harbor makes executable and runs: that of the tests, and that of a solution.
const (
	testScript  = "test.sh"
	solveScript = "solve.sh"
)

// solution returns commands that write the files of a folder to one folder and run its solve.sh; none
// without a solution, or for one that is too large for a task. Where the agent's user may write to /, the folder is also
// at /solution, as in Harbor.
func (h *harborReader) solution(t *Task, from string) []string {
	files := h.files(from)
	if _, ok := files[solveScript]; !ok {
		return nil
	}

	const folder = rollout.Home + "/solution"

	var commands []string

	for _, name := range sortedKeys(files) {
		h.asked = append(h.asked, files[name])
		target := shellQuote(path.Join(folder, name))
		data := base64.StdEncoding.EncodeToString([]byte(files[name]))
		command := fmt.Sprintf("mkdir -p \"$(dirname %[1]s)\" && base64 -d > %[1]s <<< '%[2]s'", target, data)

		if name != solveScript && h.isProgram(path.Join(from, name)) {
			command += " && chmod +x " + target
		}

		commands = append(commands, command)
	}

	size := len(strings.Join(commands, ""))
	if size > h.inline {
		t.Notes = append(t.Notes, fmt.Sprintf(
			"%s: has %d bytes in base64 and a task has room for %d, so that the agent oracle cannot run it", from, size, h.inline,
		))

		return nil
	}

	h.inline -= size

	return append(commands,
		exports(h.solutionEnv)+"chmod +x "+folder+"/solve.sh; ln -sfn "+folder+" /solution 2> /dev/null; "+
			"if [ -e /solution/solve.sh ]; then exec /solution/solve.sh; else exec "+folder+"/solve.sh; fi")
}

// isProgram reports whether a file may be executed.
func (h *harborReader) isProgram(name string) bool {
	st, err := fs.Stat(h.folder, name)
	return err == nil && st.Mode()&0o111 != 0
}

// interpreted finds the program that runs a script by its first line, and the options that this line gives it.
var interpreted = regexp.MustCompile(`^#!\s*(?:\S*/env\s+(?:-S\s+)?)?(\S*)[ \t]*(.*)`)

// setOptions finds options of a shell that its command set knows as well.
var setOptions = regexp.MustCompile(`^(-[abefhkmuvxBCEHPT]+|-[abefhkmuvxBCEHPT]*o [a-z]+)( (-[abefhkmuvxBCEHPT]+|-[abefhkmuvxBCEHPT]*o [a-z]+))*$`)

// shellOptions returns a command that sets the options of a shell that the first line of a script gives, since Harbor runs
// the script by this line. It refuses a script of another program, which bash would not run as meant.
func (h *harborReader) shellOptions(name, script string) string {
	found := interpreted.FindStringSubmatch(strings.SplitN(script, "\n", 2)[0])
	if found == nil {
		return ""
	}

	if strings.HasSuffix(found[0], "\r") {
		h.refuse("%s: lines end as on Windows (CR LF), so that no program starts it: they must end with LF", name)
		return ""
	}

	if !slices.Contains([]string{"ash", "bash", "dash", "sh"}, path.Base(found[1])) {
		h.refuse("%s: %q: must be a script of bash or sh, which may start another program", name, found[0])
		return ""
	}

	switch options := strings.Trim(found[2], " \t"); {
	case options == "" || options == "-l" || options == "--login":
		return ""
	case setOptions.MatchString(options):
		return "set " + options + "; "
	default:
		h.refuse("%s: %q: options must be those of set, such as -eu", name, found[0])
		return ""
	}
}

// withLine puts a line at the start of a script, after its first line if that names its shell.
func withLine(script, line string) string {
	if script == "" || line == "" {
		return script
	}

	if head, rest, ok := strings.Cut(script, "\n"); ok && strings.HasPrefix(head, "#!") {
		return head + "\n" + line + "\n" + rest
	}

	return line + "\n" + script
}

func shellQuote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
