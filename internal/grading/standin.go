package grading

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandbox"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
	"github.com/rolloutd/rolloutd/internal/text"
)

// Many test scripts install their test runner when they run, and what their tests import. Where that is not possible, the
// script writes a 0 for any work. So a script whose 0 may come from that runs once without work and with stand-ins:
// functions with the names of programs, which succeed where the program cannot run for a reason that no work can change. If
// that changes the reward, this reason decides it.

//go:embed standin.sh
var standInFunctions string

// runners are programs that run tests, which no task asks for.
var runners = []string{
	"bats", "behave", "bun", "coverage", "ctest", "deno", "hatch", "jest", "mocha", "mvn", "nose2", "nox", "npx",
	"phpunit", "pipenv", "pipx", "pnpm", "poetry", "py.test", "pytest", "rspec", "tox", "uv", "uvx", "vitest", "yarn",
}

// helpers are programs that tests are often run or installed by, beside Python.
var helpers = []string{"apt", "apt-get", "cargo", "curl", "go", "make", "node", "npm", "pip", "pip3"}

// runnerModules are modules of Python that run tests.
var runnerModules = []string{"behave", "coverage", "nose2", "nox", "pytest", "robot", "tox", "uv", "xdist"}

// pythons are names of Python.
var pythons = regexp.MustCompile(`^python[0-9.]*$`)

// startWrappers are programs that start the program which follows.
var startWrappers = []string{"env", "nice", "stdbuf", "timeout"}

// standIns is the file in which stand-ins note why a program cannot run.
const standIns = wire.VerifierLogs + "/stand-ins"

// standInTests is the file in which they note whether each program that was given tests ran or was prevented.
const standInTests = standIns + ".tests"

// Paths in a script: those that are absolute or of a home, which of them no work can change, and those that are relative,
// also as the word of a test.
var (
	absolutePath = regexp.MustCompile(`(?:^|[\s"'=(<>:;&|])((?:/[A-Za-z0-9_.*]|~|\.{1,2}/|\$\{?(?:HOME|PWD)\b)[^\s"';)|&<>]*)`)
	pathOfTests  = regexp.MustCompile(`^(/tests|/logs|/verifier|/usr|/bin|/dev/null|/etc|(/root|~|\$HOME|\$\{HOME\})/\.(local|cargo)/)`)
	relativePath = regexp.MustCompile(`(?:^|[\s"'=(<>])[A-Za-z0-9_-]+(?:/(?:[^0-9\s]|[0-9]+[A-Za-z_./-])|\.[a-z])|\s-[defhrsxL]\s+["']?[A-Za-z0-9_]`)
)

// namesOnlyTests reports whether a script names nothing of the work but to the programs that have stand-ins and get tests,
// so that these programs decide its reward.
func namesOnlyTests(script string) bool {
	for line := range strings.SplitSeq(withoutTests(script), "\n") {
		line = strings.TrimSpace(line)
		// a comment, or where the tests start
		if strings.HasPrefix(line, "#") || strings.HasPrefix(line, "cd ") && !strings.ContainsAny(line, ";&|") {
			continue
		}

		if relativePath.MatchString(line) {
			return false
		}

		for _, found := range absolutePath.FindAllStringSubmatch(line, -1) {
			if !pathOfTests.MatchString(found[1]) {
				return false
			}
		}
	}

	return true
}

// withoutTests is a script with spaces in place of the calls in which a program that has a stand-in gets a file of the tests.
func withoutTests(script string) string {
	file, err := parsed(script)
	if err != nil {
		return script
	}

	left := []byte(script)

	syntax.Walk(file, func(n syntax.Node) bool {
		call, ok := n.(*syntax.CallExpr)
		if !ok {
			return true
		}

		words := call.Args
		if len(words) > 0 && slices.Contains(startWrappers, words[0].Lit()) {
			words = words[1:]
			started := func(word *syntax.Word) bool { return hasStandIn(textOf(word, script)) }
			words = words[max(0, slices.IndexFunc(words, started)):]
		}

		isOfTests := func(word *syntax.Word) bool { return fileOfTests.MatchString(textOf(word, script)) }
		if len(words) > 0 && hasStandIn(textOf(words[0], script)) && slices.ContainsFunc(words, isOfTests) {
			blank := left[words[0].Pos().Offset():words[len(words)-1].End().Offset()]
			copy(blank, strings.Repeat(" ", len(blank)))
		}

		return true
	})

	return string(left)
}

// fileOfTests finds a file of the tests in a word.
var fileOfTests = regexp.MustCompile(`^(\$\{?TESTS_DIR\b|/tests/|/verifier/tests/)`)

// installers are programs that are given the names of packages.
var installers = []string{"pip", "pip3", "pipx", "uv", "uvx"}

// bringers are programs that may bring files of the work to the tests, beside those that only make or remove some.
var bringers = []string{"cp", "dd", "git", "install", "ln", "mv", "rsync", "tar", "tee", "unzip"}

// bringsFiles finds how tests bring files of the work to where they are.
var bringsFiles = regexp.MustCompile(`shutil|copy|symlink|os\.(link|rename|replace)|sys\.(path|modules)|importlib|exec\(`)

// ofLogs finds a path that is none of the tests, to which a script often copies its output.
var ofLogs = regexp.MustCompile(`^(/logs/|/verifier/logs/|/tmp/|/dev/null|"?\$\{?VERIFIER_DIR\b)`)

// toTests finds a path at which the output of a command may become a part of the tests.
var toTests = regexp.MustCompile(`(?i)test|\.(py|[cm]?[jt]s|go|rs|rb|json|toml|cfg|ini|mk)$`)

// withStandIns puts stand-ins before the script of a verifier; it is false for one that has none.
func withStandIns(v rollout.Verifier) (string, bool) {
	file, err := parsed(v.Script)
	if err != nil {
		return "", false
	}

	calls, installs := map[string]string{}, " "

	syntax.Walk(file, func(n syntax.Node) bool {
		call, ok := n.(*syntax.CallExpr)
		if !ok || len(call.Args) == 0 {
			return true
		}

		first := textOf(call.Args[0], v.Script)
		isWrapper := slices.Contains(startWrappers, first)

		for n, word := range call.Args {
			name := textOf(word, v.Script)

			switch {
			case n == 0 && isWrapper:
				calls[name] = "__wrapped"
			case n == 0 || isWrapper:
				calls[name] = cmp.Or(standInOf(name), calls[name])
			}

			if n > 0 && (slices.Contains(installers, first) || moduleOf(call.Args) == "pip") {
				installs += packageName(name) + " "
			}
		}

		return true
	})

	var functions strings.Builder

	set := map[bool]string{true: "1"}
	fmt.Fprintf(&functions, "__installs='%s' __brings=%s __searches=%s\n", installs, set[brings(v, file)], set[searchesWork(v.Script)])

	some := false

	for _, name := range slices.Sorted(maps.Keys(calls)) {
		if function := calls[name]; function != "" {
			some = some || function != "__wrapped"
			// a name may be a path, also of the tests' folder by its variable
			fmt.Fprintf(&functions, "%[1]s() { %[2]s %[1]s \"$@\"; }\n", testsVariable.ReplaceAllLiteralString(name, wire.VerifierTests), function)
		}
	}

	return standInFunctions + functions.String() + v.Script, some
}

// brings reports whether a verifier may bring files of the work to where its tests are.
func brings(v rollout.Verifier, script *syntax.File) bool {
	files, err := v.TestFiles()
	// nothing is known of an archive
	found := err != nil || v.FilesRef != nil

	for _, content := range files {
		found = found || bringsFiles.MatchString(content)
	}

	syntax.Walk(script, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.Redirect:
			if n.Word != nil {
				to := textOf(n.Word, v.Script)
				found = found || toTests.MatchString(to) && !ofLogs.MatchString(to)
			}
		case *syntax.CallExpr:
			isBringer := func(word *syntax.Word) bool { return slices.Contains(bringers, word.Lit()) }
			if slices.ContainsFunc(n.Args, isBringer) {
				found = found || !ofLogs.MatchString(textOf(n.Args[len(n.Args)-1], v.Script))
			}
		}

		return true
	})

	return found
}

// textOf is a word of a script, without quotes around it.
func textOf(word *syntax.Word, script string) string {
	return strings.Trim(script[word.Pos().Offset():word.End().Offset()], `'"`)
}

// packageNamed finds the name in what an installer is given: name, name==1.0, name[extra]>=2.
var packageNamed = regexp.MustCompile(`^[A-Za-z0-9._-]+`)

// packageName is the name of a package as that of its module usually is.
func packageName(word string) string {
	return strings.ToLower(strings.ReplaceAll(packageNamed.FindString(word), "-", "_"))
}

// moduleOf is the module that the arguments of Python name; "": none.
func moduleOf(words []*syntax.Word) string {
	for n, word := range words[:len(words)-1] {
		if word.Lit() == "-m" {
			return words[n+1].Lit()
		}
	}

	return ""
}

// hasStandIn reports whether a program has a stand-in.
func hasStandIn(program string) bool { return standInOf(program) != "" }

// standInOf is the function of a program's stand-in; "": none. A program has one by its name, by a path of the system, or as a
// file of the tests. The work may provide what runs tests at another path.
func standInOf(program string) string {
	name := path.Base(program)
	runs := slices.Contains(runners, name) || pythons.MatchString(name)

	switch {
	case programOfTests.MatchString(program):
		return "__stand_in"
	case name == program || isSystemPath(path.Dir(program)):
		if runs || slices.Contains(helpers, name) {
			return "__stand_in"
		}
	case runs && functionName.MatchString(program):
		return "__searches=1 __stand_in"
	}

	return ""
}

// functionName finds a path that bash accepts as the name of a function.
var functionName = regexp.MustCompile(`^[A-Za-z0-9_./-]+$`)

// The folder of the tests by its variable, and a file below it which is started as a program.
var (
	testsVariable  = regexp.MustCompile(`^\$(TESTS_DIR|\{TESTS_DIR\})`)
	programOfTests = regexp.MustCompile(`^(\$TESTS_DIR|\$\{TESTS_DIR\}|/tests|/verifier/tests)(/[A-Za-z0-9_.-]+)+$`)
)

// pathOf finds the values that a script gives to PATH.
var pathOf = regexp.MustCompile(`\bPATH=["']?([^\s"';&]*)`)

// searchesWork reports whether a script may find programs in folders of the work: in a virtual environment, or in another
// folder of its PATH than those of the system and those of an installer in a home.
func searchesWork(script string) bool {
	if strings.Contains(script, "activate") {
		return true
	}

	for _, found := range pathOf.FindAllStringSubmatch(script, -1) {
		for folder := range strings.SplitSeq(found[1], ":") {
			home := strings.HasSuffix(folder, "/.local/bin") || strings.HasSuffix(folder, "/.cargo/bin")
			if folder != "" && folder != "$PATH" && folder != "${PATH}" && !home && !isSystemPath(folder) {
				return true
			}
		}
	}

	return false
}

// saysMissing finds how shells and programs report that they lack a program, a module, an option, a file or the network.
const saysMissing = `[Nn]ot found|bad interpreter|(bin|tests)/[A-Za-z0-9_./-]+: [Nn]o such file|env: .*[Nn]o such file|no program|does not exist|No module named|unrecognized arguments|open file|Cannot find|` +
	`[Cc]ould not|Failed to|Querying Python|[Nn]o matching|[Mm]issing script|No rule to make|No targets|resolv|offline|externally|E[A-Z_]*(AGAIN|NOTFOUND|REFUSED)|in a folder of the work|[Pp]ermission denied`

var missingProgram = regexp.MustCompile(saysMissing)

// mayLackRunner reports whether the output of a script, or what it wrote beside its reward, says that something is missing.
// The work can say so too, which costs one more run.
func mayLackRunner(ctx context.Context, sb *sandbox.Sandbox, record *Record) (bool, error) {
	if missingProgram.MatchString(record.Stdout) || missingProgram.MatchString(record.Stderr) {
		return true, nil
	}

	search := asVerifier("-c", fmt.Sprintf("grep -rsqE '%s' %s", saysMissing, wire.VerifierLogs))

	st, err := sandbox.RunCommand(ctx, sb, "verify-missing", search, &sandbox.CommandBudget{Total: syntaxTimeout})
	if fault.Is(err, fault.SandboxLost) || fault.Is(err, fault.Unavailable) {
		return false, err
	}

	return err == nil && st.ExitCode == 0 && !st.TimedOut, nil
}

// maxReasons bounds the characters of what stand-ins noted in a failure.
const maxReasons = 600

// checkRunner is the verifier's failure if a program that cannot run decides that the script gives the least reward.
func (g *Grader) checkRunner(ctx context.Context, job Job, record Record) error {
	script, ok := withStandIns(job.Verifier)
	if !ok {
		return nil
	}

	assisted := job
	assisted.Verifier.Script = script

	with, err := g.scriptOf(ctx, assisted)
	if err != nil || len(with.standIns) == 0 {
		return err
	}

	// the work may have spoiled what is right without it
	without, err := g.scriptOf(ctx, job)
	if err != nil || without.reward > *record.Reward {
		return err
	}

	// the tests may decide by what they leave, which no stand-in does
	if with.reward <= *record.Reward && !(with.prevented && namesOnlyTests(job.Verifier.Script)) {
		return nil
	}

	return verifierFailed("the test script cannot work without the agent's work either: %s: it gives %g for any work; "+
		"grading reaches no network, so the image must have what the script would install, outside of the work's folders, or the "+
		"task needs verifier.grade shared",
		text.Head(strings.Join(with.standIns, "; "), maxReasons), *record.Reward)
}

// scriptOf is how a script ends in a new sandbox without the work; one that cannot be run there gives nothing.
func (g *Grader) scriptOf(ctx context.Context, job Job) (scriptEnd, error) {
	if err := g.Sandboxes.Destroy(ctx, job.ControlID()); err != nil {
		return scriptEnd{}, err
	}

	alone, err := g.controlOf(ctx, job)

	var f *failure
	if errors.As(err, &f) || err == nil && alone.script == nil {
		return scriptEnd{}, nil
	}

	if err != nil {
		return scriptEnd{}, err
	}

	return *alone.script, nil
}

// stoodIn returns what stand-ins noted, in the order of the script.
func stoodIn(ctx context.Context, sb *sandbox.Sandbox) ([]string, error) {
	noted, err := readRewardFile(ctx, sb, standIns, maxRewardsFile)

	return slices.Compact(strings.FieldsFunc(noted, func(c rune) bool { return c == '\n' })), err
}

// testsPrevented reports whether stand-ins noted that programs were given tests, and that none of them ran.
func testsPrevented(ctx context.Context, sb *sandbox.Sandbox) (bool, error) {
	noted, err := readRewardFile(ctx, sb, standInTests, maxRewardsFile)

	return strings.Contains(noted, "prevented") && !strings.Contains(noted, "ran"), err
}
