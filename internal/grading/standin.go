package grading

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/sandbox"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

// Many test scripts install their test runner when they run. Where that is not possible the runner is missing, and the
// script writes a 0 for any work. So a script whose 0 may come from that runs once without work and with stand-ins:
// functions with the names of runners, which succeed where nothing else has the name. If that changes the reward, the
// missing runner decides it.

// runners are programs that run tests, which no task asks for.
var runners = []string{
	"bats", "behave", "bun", "coverage", "ctest", "deno", "hatch", "jest", "mocha", "mvn", "nose2", "nox", "npx",
	"phpunit", "pipenv", "pipx", "pnpm", "poetry", "py.test", "pytest", "rspec", "tox", "uv", "uvx", "vitest", "yarn",
}

// runnerModules are modules of Python that do.
var runnerModules = []string{"behave", "coverage", "nose2", "nox", "pytest", "robot", "tox", "uv", "xdist"}

// pythons are names of Python.
var pythons = regexp.MustCompile(`^python[0-9.]*$`)

// standIns is the file in which stand-ins note their names.
const standIns = wire.VerifierLogs + "/stand-ins"

// withStandIns puts stand-ins before a script; it is false for one that calls no runner, or looks for programs where the
// work may have them.
func withStandIns(script string) (string, bool) {
	file, err := parsed(script)
	if err != nil || searchesWork(script) {
		return "", false
	}

	names, modules := map[string]bool{}, map[string][]string{}

	syntax.Walk(file, func(n syntax.Node) bool {
		call, ok := n.(*syntax.CallExpr)
		if !ok || len(call.Args) == 0 {
			return true
		}

		name := call.Args[0].Lit()
		if slices.Contains(runners, name) {
			names[name] = true
		}

		if module := moduleOf(call.Args); pythons.MatchString(name) && slices.Contains(runnerModules, module) {
			modules[name] = append(modules[name], module)
		}

		return true
	})

	var functions strings.Builder
	for _, name := range slices.Concat(slices.Sorted(maps.Keys(names)), slices.Sorted(maps.Keys(modules))) {
		functions.WriteString(standIn(name, modules[name]))
	}

	return functions.String() + script, functions.Len() > 0
}

// standIn is the function that takes the place of a program, or of Python with one of these modules, if it is missing.
func standIn(name string, modules []string) string {
	if len(modules) == 0 {
		return fmt.Sprintf("%[1]s() { if type -P %[1]s > /dev/null; then command %[1]s \"$@\"; else echo %[1]s >> %[2]s; fi; }\n",
			name, standIns)
	}

	var cases strings.Builder
	for _, module := range slices.Compact(slices.Sorted(slices.Values(modules))) {
		fmt.Fprintf(&cases, "if [[ \" $* \" == *\" -m %[2]s \"* ]] && ! command %[1]s -c 'import %[2]s' > /dev/null 2>&1; "+
			"then echo '%[1]s -m %[2]s' >> %[3]s; return 0; fi; ", name, module, standIns)
	}

	return fmt.Sprintf("%[1]s() { %[2]scommand %[1]s \"$@\"; }\n", name, cases.String())
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

// saysMissing finds how shells and Python report a missing program or module.
const saysMissing = `not found|no program|does not exist|No module named`

var missingProgram = regexp.MustCompile(saysMissing)

// mayLackRunner reports whether the output of a script, or what it wrote beside its reward, says that a program is
// missing. The work can say so too, which costs one more run.
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

// checkRunner is the verifier's failure if a missing test runner decides that the script gives the least reward.
func (g *Grader) checkRunner(ctx context.Context, job Job, record Record) error {
	script, ok := withStandIns(job.Verifier.Script)
	if !ok {
		return nil
	}

	assisted := job
	assisted.Verifier.Script = script

	with, err := g.scriptOf(ctx, assisted)
	if err != nil || len(with.standIns) == 0 || with.reward <= *record.Reward {
		return err
	}

	// the work may have spoiled what is right without it
	without, err := g.scriptOf(ctx, job)
	if err != nil || with.reward <= without.reward {
		return err
	}

	return verifierFailed("the test script runs %s, which is not in the image: it gives %g without that, for any work; "+
		"grading reaches no network, so the image must have what the script would install",
		strings.Join(with.standIns, ", "), *record.Reward)
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

// stoodIn returns the names that stand-ins noted.
func stoodIn(ctx context.Context, sb *sandbox.Sandbox) ([]string, error) {
	text, err := readRewardFile(ctx, sb, path.Clean(standIns), maxRewardFile)
	names := strings.FieldsFunc(text, func(c rune) bool { return c == '\n' })

	return slices.Compact(slices.Sorted(slices.Values(names))), err
}
