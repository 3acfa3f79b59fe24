package runas

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

// WorkFolders is the variable with the folders that the graded work may write, separated by colons.
const WorkFolders = "ROLLOUTD_WORK_FOLDERS"

// InlineCode is the variable that says where an interpreter runs code from its command line or its standard
// input: InlineByVerifier, or else with the work. A test script writes its reward from such code; in a
// verify command such code imports the work.
const (
	InlineCode       = "ROLLOUTD_INLINE_CODE"
	InlineByVerifier = "verifier"
)

// OwnImage is the variable of a verifier whose sandbox is of an image of its own: "1". All files outside of the work's
// folders are the verifier's then.
const OwnImage = "ROLLOUTD_OWN_IMAGE"

// Dispatch runs a program where it belongs: beside the verifier, or with the work. It returns only if that
// fails, or when a program of the work has ended, with its exit status. argv[0] is a shim, or RunHere
// before the program.
func Dispatch(argv []string) int {
	if filepath.Base(argv[0]) == RunHere {
		argv = argv[1:]
	}

	if len(argv) == 0 {
		fmt.Fprintln(os.Stderr, RunHere+": names no program; usage: run-here PROGRAM [ARGUMENT...]")
		return notStarted
	}

	argv = slices.Clone(argv)
	argv[0] = strings.TrimPrefix(argv[0], Shims+"/")

	link, shim := linkToShim(argv[0])
	if shim != "" {
		argv[0] = shim
	}

	here := surroundingsOf(os.Getenv)
	if here.belongsToWork(argv) {
		return Main(here.withInput(here.forWork(argv)))
	}

	if here.readsRepositoryOfWork(argv, os.Environ()) {
		if err := refuseChildren(); err != nil {
			fmt.Fprintf(os.Stderr, "%s: keep it from starting programs: %v\n", argv[0], err)
			return notStarted
		}
	}

	argv, env := here.prepare(argv, os.Environ())

	program := argv[0]
	if shim != "" {
		// from which Python finds its virtual environment
		argv[0], env = link, without(env, shimOfPython)
	}

	return here.execute(program, argv, env)
}

// execute executes a program of the verifier's.
func (s surroundings) execute(name string, argv, env []string) int {
	program, err := lookPath(name)
	if err == nil {
		err = unix.Exec(program, argv, env)
	}

	if isDenied := errors.Is(err, unix.EACCES) || errors.Is(err, unix.ELOOP); isDenied && s.inWork(s.resolve(program)) {
		err = fmt.Errorf("%s is in a folder of the work, from which the verifier runs nothing", program)
	}

	fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)

	if errors.Is(err, fs.ErrNotExist) {
		return notFound
	}

	return notStarted
}

// lookPath finds a program in PATH, beside Shims and links to them.
func lookPath(name string) (string, error) {
	if strings.Contains(name, "/") {
		return name, nil
	}

	for path := range programsOf(name) {
		if shimOf(path) == "" {
			return path, nil
		}
	}

	return "", fs.ErrNotExist
}

// programsOf are the programs of a name in PATH, in its order, beside Shims.
func programsOf(name string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for folder := range strings.SplitSeq(cmp.Or(os.Getenv("PATH"), wire.SystemPath), ":") {
			path := filepath.Join(folder, name)

			st, err := os.Stat(path)
			if folder != Shims && err == nil && !st.IsDir() && unix.Access(path, unix.X_OK) == nil && !yield(path) {
				return
			}
		}
	}
}

// linkToShim returns the link by which this program was started, and the name of the shim to which it leads; "": by none. uv
// takes a shim for a Python, to which it links the one of a virtual environment.
func linkToShim(name string) (link, shim string) {
	if strings.Contains(name, "/") {
		return name, shimOf(name)
	}

	for path := range programsOf(name) {
		return path, shimOf(path)
	}

	return "", ""
}

// shimOf returns the name of the shim to which a path leads; "": to none.
func shimOf(path string) string {
	for range maxLinks {
		if filepath.Dir(path) == Shims {
			return filepath.Base(path)
		}

		target, err := os.Readlink(path)
		if err != nil {
			return ""
		}

		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(path), target)
		}

		path = target
	}

	return ""
}

// surroundings are what a decision depends on, beside the program and its arguments.
type surroundings struct {
	// current folder, without links
	dir string

	// folders that the work may write
	work []string

	// inline code is the verifier's
	ownInline bool

	// files outside of work are the verifier's
	ownImage bool

	// path of the file that is the standard input; "": not a file
	stdin       string
	verifierUID int
}

func surroundingsOf(getenv func(string) string) surroundings {
	// not os.Getwd, which trusts PWD
	dir, err := unix.Getwd()
	if err != nil {
		dir = wire.AgentWorkdir
	}

	stdin, err := os.Readlink("/proc/self/fd/0")
	if err != nil || !filepath.IsAbs(stdin) {
		stdin = ""
	}

	return surroundings{
		dir:         dir,
		work:        workFolders(getenv),
		ownInline:   getenv(InlineCode) == InlineByVerifier,
		ownImage:    getenv(OwnImage) == "1",
		stdin:       stdin,
		verifierUID: os.Getuid(),
	}
}

func workFolders(getenv func(string) string) []string {
	if list := getenv(WorkFolders); list != "" {
		return strings.Split(list, ":")
	}

	return append([]string{wire.AgentHome}, temporaryFolders...)
}

// temporaryFolders are writable for everybody, who can remove only files of their own.
var temporaryFolders = []string{"/tmp", "/var/tmp", "/dev/shm"}

// belongsToWork reports whether the program runs with the work. It is decided so that an unknown program
// does. The kernel keeps the verifier's processes from executing files of the work's folders and from
// following links there, so a wrong decision ends in an error.
func (s surroundings) belongsToWork(argv []string) bool {
	program, args := argv[0], argv[1:]
	name := filepath.Base(program)

	// A program that is named by its path belongs to the folder's owner. One of an image may run what it is given.
	if strings.Contains(program, "/") {
		switch s.withoutImage().placeOf(program) {
		case ofVerifier:
			return false
		case ofWork:
			return true
		}
	}

	switch {
	case slices.Contains(tools, name) || slices.Contains(wrappers, name):
		return false
	case scripted[name] != nil:
		return slices.ContainsFunc(scriptsOf(name, args), s.isScriptOfWork)
	case name == "chmod" && slices.ContainsFunc(args, s.isOwnFile):
		// the work may not change the mode of what the verifier has made in a folder of the work
		return false
	case slices.Contains(fileTools, name):
		return !s.changesOwnImage(args) && !slices.ContainsFunc(args, func(arg string) bool { return s.placeOf(arg) == ofVerifier })
	case name == "git" && slices.Equal(args[:min(len(args), 1)], []string{"apply"}) && s.placeOf(s.dir) == ofVerifier:
		// it runs nothing of a patch, and changes nothing outside of the repository
		return false
	}

	if folder := setupFolder(args); folder != "" {
		return s.placeOf(folder) != ofVerifier
	}

	// Other programs run what their first file has.
	switch s.placeOfFirst(name, args) {
	case ofVerifier:
		return false
	case ofWork:
		return true
	}

	switch {
	case isInline(name, args):
		return !s.ownInline || s.isOfWork(name, args)
	case slices.Contains(ownPrograms, name) && s.ownInline && !usesProject(name, args):
		return false
	}

	// A file of the work that does not exist yet may be made before the program opens it.
	return s.placeOf(s.dir) != ofVerifier ||
		slices.ContainsFunc(args, func(arg string) bool { return s.placeOf(arg) == ofWork })
}

// isScriptOfWork reports whether a file with a program, which may be the standard input, is the work's. gawk looks for the
// name in the current folder, too, and adds a suffix.
func (s surroundings) isScriptOfWork(file string) bool {
	if file == "-" || file == "/dev/stdin" {
		file = s.stdin
	}

	return s.placeOf(file) == ofWork && (exists(s.resolve(file)) || exists(s.resolve(file+".awk")))
}

// changesOwnImage reports whether the last argument, which is what a tool makes or changes, is in an image of the verifier's
// own, and not in a folder of the work.
func (s surroundings) changesOwnImage(args []string) bool {
	for _, arg := range slices.Backward(args) {
		if !strings.HasPrefix(arg, "-") {
			return s.ownImage && !s.inWork(s.resolve(arg))
		}
	}

	return false
}

// forWork replaces paths through links of the verifier's home, such as ~/workdir, which the work cannot open.
func (s surroundings) forWork(argv []string) []string {
	for i, arg := range argv {
		if !within(arg, filepath.Dir(wire.VerifierHome)) {
			continue
		}

		if at := s.resolve(arg); s.inWork(at) {
			argv[i] = at
		}
	}

	return argv
}

// withInput gives a tool with a program of the work the verifier's file that it reads, its last argument, as the standard
// input. The work cannot open it.
func (s surroundings) withInput(argv []string) []string {
	last := len(argv) - 1
	if scripted[filepath.Base(argv[0])] == nil || s.placeOf(argv[last]) != ofVerifier {
		return argv
	}

	fd, err := unix.Open(argv[last], unix.O_RDONLY, 0)
	if err == nil {
		err = unix.Dup3(fd, 0, 0)
	}

	if err != nil {
		// the tool says so
		return argv
	}

	return argv[:last]
}

// isOfWork reports whether inline code in a test script belongs to the work: a file of the work that is the
// standard input, or code on the command line that names nothing of the verifier's. Such code usually
// imports the work.
func (s surroundings) isOfWork(name string, args []string) bool {
	if len(args) == 0 || slices.Contains(args, "-") {
		return s.stdin != "" && s.placeOf(s.stdin) == ofWork
	}

	code := strings.Join(args, " ")

	// Tools of a verifier's own image, such as npm, run the commands of its files by a shell, which is dispatched no further
	// than the test script is: each program that it starts is.
	if s.ownImage && slices.Contains(shells, name) && s.placeOf(s.dir) == ofVerifier {
		return s.mentionsWork(code)
	}

	return !MentionsVerifier(code)
}

// mentionsWork reports whether a text names a folder of the work other than one for temporary files.
func (s surroundings) mentionsWork(text string) bool {
	return slices.ContainsFunc(s.work, func(folder string) bool {
		return !slices.Contains(temporaryFolders, folder) && strings.Contains(text, folder)
	})
}

// setupOf finds the folder of a package in the code with which pip runs the package's setup.py, which need not exist.
var setupOf = regexp.MustCompile(`['"](/[^'"\n]*)/setup\.py['"]`)

// setupFolder returns the folder of a package whose setup.py pip runs by code on the command line of Python; "": none. What
// it is given besides are temporary folders of pip.
func setupFolder(args []string) string {
	for i, arg := range args {
		if arg != "-c" || i+1 == len(args) || !strings.Contains(args[i+1], "setuptools") {
			continue
		}

		if found := setupOf.FindStringSubmatch(args[i+1]); found != nil {
			return found[1]
		}
	}

	return ""
}

// MentionsVerifier reports whether a text names a folder of the verifier's.
func MentionsVerifier(text string) bool {
	return slices.ContainsFunc([]string{
		"/verifier", "/tests", "TESTS_DIR", "VERIFIER_DIR",
	}, func(name string) bool { return strings.Contains(text, name) })
}

// place is where a path leads.
type place int

const (
	elsewhere place = iota
	ofWork
	ofVerifier
)

// placeOfFirst is the place of the first argument that is no option and names an existing file of the work,
// or a path of the verifier's. The work chooses the names of its files, and so may have one that is called like the value of
// an option. So one of the verifier's counts wherever it stands after an option -m, which names a module that is then given
// the arguments, and the tests do where a test runner gets them.
func (s surroundings) placeOfFirst(name string, args []string) place {
	first, runsModule, runsTests := elsewhere, false, slices.Contains(testRunners, name)

	if slices.Contains(commanded, name) && len(args) > 0 && !strings.Contains(args[0], "/") {
		runsTests = slices.Contains(testRunners, args[0])
		args = args[1:]
	}

	for _, arg := range args {
		runsModule = runsModule || arg == "-m"
		runsTests = runsTests || slices.Contains(testRunners, arg)

		if strings.HasPrefix(arg, "-") {
			continue
		}

		at := s.placeOf(arg)
		if at == ofWork && !exists(s.resolve(arg)) {
			continue
		}

		if first == elsewhere {
			first = at
		}

		if at == ofVerifier && (runsModule || runsTests && within(s.resolve(arg), wire.VerifierTests)) {
			return ofVerifier
		}
	}

	return first
}

// placeOf returns the place to which a path leads.
func (s surroundings) placeOf(path string) place {
	if path == "" {
		return elsewhere
	}

	at := s.resolve(path)
	switch {
	case s.isOwnTemporary(at):
		return ofVerifier
	case s.inWork(at):
		return ofWork
	case within(at, filepath.Dir(wire.VerifierHome)) || s.ownImage && exists(at):
		return ofVerifier
	default:
		return elsewhere
	}
}

// isOwnTemporary reports whether a path is a file that the verifier made in a temporary folder, where no
// other user can replace it.
func (s surroundings) isOwnTemporary(at string) bool {
	if !slices.Contains(temporaryFolders, filepath.Dir(at)) {
		return false
	}

	return s.isOwnFile(at)
}

// isOwnFile reports whether a path leads to a file that the verifier made.
func (s surroundings) isOwnFile(path string) bool {
	var st unix.Stat_t

	return unix.Lstat(s.resolve(path), &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFREG && int(st.Uid) == s.verifierUID
}

// withoutImage are the surroundings in which the image is nobody's.
func (s surroundings) withoutImage() surroundings {
	s.ownImage = false
	return s
}

func (s surroundings) inWork(at string) bool {
	return slices.ContainsFunc(s.work, func(folder string) bool { return within(at, folder) })
}

func within(at, folder string) bool { return at == folder || strings.HasPrefix(at, folder+"/") }

// maxLinks is the kernel's bound of links in a path.
const maxLinks = 40

// resolve returns the path without links, as the kernel resolves it for the verifier: in the work's folders
// it follows none.
func (s surroundings) resolve(path string) string {
	if !filepath.IsAbs(path) {
		path = s.dir + "/" + path
	}

	at, links := "/", 0

	for parts := strings.Split(path, "/"); len(parts) > 0; {
		part := parts[0]
		parts = parts[1:]

		switch part {
		case "", ".":
			continue
		case "..":
			at = filepath.Dir(at)
			continue
		}

		next := filepath.Join(at, part)

		target, err := os.Readlink(next)
		if err != nil || s.inWork(next) || links == maxLinks {
			at = next
			continue
		}

		links++

		if filepath.IsAbs(target) {
			at = "/"
		}

		parts = append(strings.Split(target, "/"), parts...)
	}

	return at
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// prepare returns the arguments and the environment of a program of the verifier's.
func (s surroundings) prepare(argv, env []string) ([]string, []string) {
	env = withHooks(env)
	name := filepath.Base(argv[0])

	switch {
	case name == "env":
		return insertAt(argv, commandOfEnv(argv)), env
	case slices.Contains(wrappers, name):
		return insertAt(argv, s.firstProgram(argv)), env
	case (name == "uv" || name == "uvx") && s.inWork(s.dir):
		return argv, append(without(env, uvNoSync, uvNoConfig), uvNoSync+"=1", uvNoConfig+"=1")
	case strings.HasPrefix(name, "python"):
		return asItself(argv, s.forPython(argv[1:], env))
	default:
		return argv, env
	}
}

// Variables with which uv neither builds the project in the current folder, which runs code of the project, nor takes packages
// from where its files say.
const (
	uvNoSync   = "UV_NO_SYNC"
	uvNoConfig = "UV_NO_CONFIG"
)

// asItself gives Python its own path as its name, from which it finds its modules and those of its virtual environment.
// What a check starts as sys.executable must be the shim, as which the hook sets it.
func asItself(argv, env []string) (named, with []string) {
	shim := filepath.Join(Shims, argv[0])

	program, err := lookPath(argv[0])
	if err != nil || program == argv[0] || !exists(shim) || ignoresHooks(argv[1:]) {
		return argv, env
	}

	argv[0] = program

	return argv, append(without(env, shimOfPython), shimOfPython+"="+shim)
}

// shimOfPython is a variable with the path of the shim that started Python; the hook removes it.
const shimOfPython = "ROLLOUTD_PYTHON"

// ignoresHooks reports whether options make Python import no hook: -E, -I and -S.
func ignoresHooks(args []string) bool {
	for _, arg := range args {
		if !strings.HasPrefix(arg, "-") {
			return false
		}

		if !strings.HasPrefix(arg, "--") && strings.ContainsAny(arg, "EIS") {
			return true
		}
	}

	return false
}

// forPython keeps the current folder and modules beside the work out of Python's search path. A script still finds modules
// beside it, and a module that is started in a folder of the verifier's own image those of the folder. In a folder of the
// work the hook finds them, for the tests and the work alone.
func (s surroundings) forPython(args, env []string) []string {
	search := searchPath(env)
	env = append(without(env, "PYTHONSAFEPATH", modulesOfWork), "PYTHONSAFEPATH=1")

	switch isModule := slices.Contains(args, "-m"); {
	case isModule && s.inWork(s.dir):
		env = append(env, modulesOfWork+"="+s.dir)
	case isModule && s.ownImage:
		search = append([]string{s.dir}, search...)
	}

	for _, arg := range args {
		if !strings.HasPrefix(arg, "-") && s.placeOf(arg) == ofVerifier && !s.inWork(s.resolve(arg)) {
			search = append([]string{filepath.Dir(s.resolve(arg))}, search...)
			break
		}
	}

	return withHooks(append(without(env, pythonPath), pythonPath+"="+strings.Join(search, ":")))
}

// modulesOfWork is a variable with a folder of the work in which tests find modules; the hook removes it.
const modulesOfWork = "ROLLOUTD_WORK_MODULES"

// pythonPath is the variable with the folders in which Python looks for modules first.
const pythonPath = "PYTHONPATH"

// searchPath returns the folders of an environment's pythonPath.
func searchPath(env []string) []string {
	var folders []string

	for _, e := range env {
		if list, ok := strings.CutPrefix(e, pythonPath+"="); ok {
			folders = strings.FieldsFunc(list, func(r rune) bool { return r == ':' })
		}
	}

	return folders
}

// withHooks has Python find PythonHooks first. A script that sets the variable for the tests would lose them, and then a
// check could start a program of the work beside itself.
func withHooks(env []string) []string {
	others := slices.DeleteFunc(searchPath(env), func(folder string) bool { return folder == PythonHooks })
	return append(without(env, pythonPath), pythonPath+"="+strings.Join(append([]string{PythonHooks}, others...), ":"))
}

// withoutVerifier removes the verifier's folders from pythonPath; no folder is left: the variable too.
func withoutVerifier(env []string) []string {
	work := slices.DeleteFunc(searchPath(env), func(folder string) bool { return within(folder, filepath.Dir(wire.VerifierHome)) })

	env = without(env, pythonPath)
	if len(work) > 0 {
		env = append(env, pythonPath+"="+strings.Join(work, ":"))
	}

	return env
}

// insertAt inserts RunHere before the program that a wrapper starts; -1: none is known, and the wrapper finds a shim.
func insertAt(argv []string, i int) []string {
	if i < 0 {
		return argv
	}

	return slices.Insert(argv, i, Shims+"/"+RunHere)
}

// firstProgram returns the index of the first argument that is a path of a program; -1: none.
func (s surroundings) firstProgram(argv []string) int {
	return slices.IndexFunc(argv, func(arg string) bool {
		if !strings.Contains(arg, "/") || arg == argv[0] {
			return false
		}

		st, err := os.Stat(s.resolve(arg))

		return err == nil && st.Mode().IsRegular() && st.Mode()&0o111 != 0
	})
}

// commandOfEnv returns the index of the program that env starts; -1: none. env may clear PATH, so this
// program is always dispatched.
func commandOfEnv(argv []string) int {
	for i := 1; i < len(argv); i++ {
		switch arg := argv[i]; {
		case arg == "-u" || arg == "-C" || arg == "--unset" || arg == "--chdir":
			i++
		case strings.HasPrefix(arg, "-S") || strings.HasPrefix(arg, "--split-string"):
			return -1
		case !strings.HasPrefix(arg, "-") && !strings.Contains(arg, "="):
			return i
		}
	}

	return -1
}
