package grading_test

import (
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/grading"
)

// Every program in a verify command is dispatched when it starts, at any position, except builtins and tools.
func TestCommandArgs(t *testing.T) {
	t.Parallel()

	for command, want := range map[string]string{
		`test "$(python3 -I hello.py)" = Hello`:          `test "$(@python3 -I hello.py)" = Hello`,
		"./prog < in | diff - <(cat out)":                "@./prog < in | diff - <(cat out)",
		"X=1 ./prog && ! grep -q x f":                    "X=1 @./prog && ! grep -q x f",
		"for i in 1 2; do bash f.sh $i || exit 1; done":  "for i in 1 2; do @bash f.sh $i || exit 1; done",
		"out=`python3 x.py`; [ $out = 1 ]":               "out=`@python3 x.py`; __words 5 [ $out = 1 ]",
		"f() { ./a; }; f; $CMD x":                        "f() { @./a; }; f; __run_here $CMD x",
		". lib.sh; fail || X=1 ./a | sort":               ". lib.sh; __run_here fail || X=1 __run_here ./a | sort",
		"/usr/bin/env python3 x.py":                      "@/usr/bin/env python3 x.py",
		"timeout 5 ./a; exec ./b":                        "@timeout 5 ./a; exec @./b",
		"command -v gcc && command gcc a.c":              "command -v gcc && command @gcc a.c",
		"python3 - <<'E'\nimport a\nE\n":                 "ROLLOUTD_INLINE_CODE= @python3 - <<'E'\nimport a\nE\n",
		"python3 - <<'E'\nopen('/verifier/logs/x')\nE\n": "@python3 - <<'E'\nopen('/verifier/logs/x')\nE\n",
		"exec python3 - <<'E'\nimport a\nE\n":            "exec @python3 - <<'E'\nimport a\nE\n",
		"exec ./a <<< x":                                 "exec @./a <<< x",
		"cat <<E\n$(./a)\nE":                             "cat <<E\n$(@./a)\nE",
		"cd sub && make test":                            "cd sub && @make test",
		"if [[ -f x ]]; then node x; fi":                 "if [[ -f x ]]; then @node x; fi",
		"(./a &) ; { ./b; } 2>&1; time ./c":              "(@./a &) ; { @./b; } 2>&1; time @./c",
		"x=é; ./a":                                       "x=é; @./a",
		"python3 -m pytest -q /home/user/tests":          "@python3 -m pytest -q /verifier/tests",
		"diff <(./prog) $TESTS_DIR/want":                 "diff <(@./prog) $TESTS_DIR/want",
		"cat /home/user/testsuite/x":                     "cat /home/user/testsuite/x",
	} {
		args := grading.CommandArgs(command)
		require.Len(t, args, 2, command)
		_, got, ok := strings.Cut(args[1], "esac; }; ")
		require.True(t, ok)
		require.Equal(t, strings.ReplaceAll(want, "@", "/verifier/bin/run-here "), got)
	}

	for _, command := range []string{"run-as-agent ./a", "python3 - <<'E'\nsubprocess.run(['run-as-agent', './a'])\nE"} {
		require.Equal(t, []string{"-c", command}, grading.CommandArgs(command), "the author decides")
	}

	require.Equal(
		t,
		[]string{"-c", `exec run-as-agent bash --noprofile --norc -c "$1"`, "bash", "if then ("},
		grading.CommandArgs("if then ("),
	)
}

// A failed test prints its expanded arguments. Its exit code and the output of other commands are unchanged.
func TestAFailedTestShowsItsExpansion(t *testing.T) {
	t.Parallel()

	for command, want := range map[string]string{
		`test "$(echo hi there)" = Hello`: "test 'hi there' = Hello exited with 1\n",
		`x=3; [ $x -eq 4 ]`:               "",
		`[ $((1 + 2)) -eq 4 ]`:            "[ 3 -eq 4 ] exited with 1\n",
		`test 1 -eq 1`:                    "",
		`! test 1 -eq 1`:                  "",
		`test 1 -eq 2 || true`:            "",
		`test -f "$HOME/no such" # there`: "test -f '/nowhere/no such' exited with 1\n",
		"[ a = $'\\e[2J' ]":               "[ a = $'\\E[2J' ] exited with 1\n",
	} {
		plain := exec.CommandContext(t.Context(), "bash", "--noprofile", "--norc", "-c", command)
		args := grading.CommandArgs(command)
		cmd := exec.CommandContext(t.Context(), "bash", "--noprofile", "--norc", args[0], grading.PlainValues+args[1])

		var stderr strings.Builder

		cmd.Env, cmd.Stderr = []string{"HOME=/nowhere", "PATH=/usr/bin:/bin"}, &stderr
		plain.Env = cmd.Env
		_, _ = plain.Run(), cmd.Run()

		require.Equal(t, want, stderr.String(), command)
		require.Equal(t, plain.ProcessState.ExitCode(), cmd.ProcessState.ExitCode(), command)
	}
}

// guarded finds guards of variables in arithmetic, of tests and, with those of the text, of patterns.
var guarded = regexp.MustCompile(`\$\{[A-Za-z0-9_@*]+(\[[0-9*]+\])?//\$__harmless/\}|` +
	`\$\{[A-Za-z0-9_@*]+(\[[0-9*]+\])?:\+9\$\{[A-Za-z0-9_@*]+(\[[0-9*]+\])?//\$__(letterless|digits)/\},\}|__words [0-9]+ |"`)

// For any command, the rewritten command is the original with inserted prefixes.
func FuzzCommandArgs(f *testing.F) {
	for _, s := range []string{"a | b", "`a \\`b\\``", "x=$(a <<E\n$(b)\nE\n)", "((1)) && [[ a ]]", "((a[x]++)); [[ $n -eq $(b) ]]", "case a in b) c;; esac", "\xff", "a\\\nb"} {
		f.Add(s)
	}

	f.Fuzz(func(t *testing.T, command string) {
		args := grading.CommandArgs(command)

		_, got, ok := strings.Cut(args[1], "esac; }; ")
		if !ok || strings.Contains(got, "__plain") || strings.Contains(got, "__number") || strings.Contains(got, "$(__based") || strings.Contains(command, "__words") || strings.Contains(got, "__activate") || strings.Contains(command, "run-here") || strings.Contains(command, "ROLLOUTD") ||
			strings.Contains(command, "__run_here") ||
			strings.Contains(command, "/home/user") || strings.Contains(command, "__harmless") {
			return
		}

		got = guarded.ReplaceAllLiteralString(got, "")

		for _, p := range []string{"ROLLOUTD_INLINE_CODE= ", "__run_here ", "/verifier/bin/run-here "} {
			got = strings.ReplaceAll(got, p, "")
		}

		require.Equal(t, strings.ReplaceAll(command, `"`, ""), got)
	})
}
