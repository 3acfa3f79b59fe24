package grading_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/grading"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// Work runs no command through arithmetic with what it printed.
func TestArithmeticOfAVerifier(t *testing.T) {
	t.Parallel()

	a := newAttacked(t)

	const command = "echo 1 > /verifier/logs/reward.txt; touch /verifier/logs/mine"

	a.agent(t, "work", cheat{agent: "cd workdir; echo 42 > right; echo 'a[$(" + command + ")]' > wrong; echo 'x\x60" + command + "\x60' > ticks; echo '$(" + command + ")' > key"})

	script := "cd ~/workdir; "
	for n, test := range []string{
		"[[ $(cat $f) -eq 42 ]]", `[[ "$(cat $f)" -eq 42 ]]`, "[[ 42 -le `cat $f` ]]", "n=$(< $f); [[ $n -eq 42 ]]", "n=$(< $f); [[ n -eq 42 ]]",
		"n=$(< $f); (( n == 42 ))", "n=$(< $f); (( $n == 42 ))", "(( $(cat $f) == 42 ))", "n=$(< $f); [ $((n + 1)) = 43 ]", `n=$(< $f); [ "$(( ${n:-0} + 1 ))" = 43 ]`,
		"declare -A seen; n=$(< $f); (( seen[$n]++ )) || [[ ${seen[42]} -eq 1 ]]", "mapfile -t a < $f; (( a[0] == 42 ))",
		"f() { [[ $1 -eq 42 ]]; }; f \"$(cat $f)\"", "n=$(< $f); k=0; for ((i = 0; i < n; i++)); do k=$i; done; [ $k = 41 ]", "set -u; n=$(< $f); (( x = n, x == 42 ))",
	} {
		script += fmt.Sprintf("for f in wrong ticks key; do (%s); done; test ! -e $VERIFIER_DIR/mine || { echo %d runs it; exit; }; ", test, n) +
			fmt.Sprintf("f=right; (%s) || { echo %d is false; exit; }\n", test, n)
	}

	record := a.grade(t, "work", 0, style{verifier: rollout.Verifier{Script: script + "echo 0.5 > $VERIFIER_DIR/reward.txt"}}, time.Minute)
	require.NotNil(t, record.Reward, "%+v", record)
	require.InDelta(t, 0.5, *record.Reward, 0, "%+v", record)

	v := commands("run-as-agent true; [[ $(cat wrong) -eq 42 ]] || test ! -e $VERIFIER_DIR/mine", "(( $(cat wrong) )); test ! -e $VERIFIER_DIR/mine")
	require.InDelta(t, 1, *a.grade(t, "work", 1, style{verifier: v}, time.Minute).Reward, 0)
}

// So it is in a file of the tests that the script reads or runs, or that such a file reads. Other files are unchanged.
func TestArithmeticOfTestFiles(t *testing.T) {
	t.Parallel()

	a := newAttacked(t)

	a.agent(t, "work", cheat{agent: "cd workdir; echo 42 > right; echo 'a[$(echo 1 > /verifier/logs/reward.txt; touch /verifier/logs/mine)]' > wrong; echo '[ $1 = 1 ]' > fixture"})

	const script = `cd ~/workdir; source "$(dirname "$0")/lib/all.sh"
for check in is_answer is_value counts; do
	$check "$(cat wrong)" 2> /dev/null; [ ! -e $VERIFIER_DIR/mine ] || { echo "$check runs it"; exit; }
	$check "$(cat right)" || { echo "$check is false"; exit; }
done
for file in wrong right; do
	for run in "bash -o pipefail $TESTS_DIR/run.sh" "timeout 60 $TESTS_DIR/path.sh"; do
		$run $file; [ ! -e $VERIFIER_DIR/mine ] || { echo "$run runs it"; exit; }
	done
done
/bin/bash -euo pipefail "$TESTS_DIR/run.sh" right && timeout -s KILL -k 5 60s $TESTS_DIR/path.sh right && cmp $TESTS_DIR/fixture.sh fixture || exit
echo 0.5 > $VERIFIER_DIR/reward.txt`

	for n, v := range []rollout.Verifier{
		{Script: script},
		{Commands: []string{`cd ~/workdir; . $TESTS_DIR/lib/all.sh; is_answer "$(cat wrong)"; [ ! -e $VERIFIER_DIR/mine ]`, ". $TESTS_DIR/lib/all.sh; is_answer 42"}},
	} {
		v.Files = map[string]string{
			"lib/all.sh": "#!/bin/bash\n# all checks\n. $TESTS_DIR/lib/checks.sh\nis_answer() {\n  [[ $1 -eq 42 ]]\n}\n",
			"fixture.sh": "[ $1 = 1 ]\n", "run.sh": "n=$(cat $1); (( n == 42 ))\n", "path.sh": "#!/bin/bash\n[[ $(cat $1) -eq 42 ]]\n",
			"lib/checks.sh": "is_value() { (( $1 == 42 )); }\ncounts() { local n=$1; for ((i = 0; i < n; i++)); do :; done; [ $i = 42 ]; }\nis_value 42",
		}

		record := a.grade(t, "work", n, style{verifier: v}, time.Minute)
		require.NotNil(t, record.Reward, "%+v", record)
		require.InDelta(t, []float64{0.5, 1}[n], *record.Reward, 0, "%+v", record)
	}
}

// A file of the tests does the same with guards, whether a script reads it or runs it.
func TestFilesAreUnchanged(t *testing.T) {
	t.Parallel()

	for _, library := range []string{
		"#!/bin/sh\nis() { [ $1 = $2 ]; }\nis 1 1", "#!/usr/bin/env bash\nset -euo pipefail\n# checks\n\nis() { [ $1 = $2 ] || return 1; }\nis 1 1; echo $LINENO ${BASH_SOURCE[0]##*/}",
		"failed=0\ncheck() {\n  local want=$1 got=$2\n  if [[ $got -ne $want ]]; then (( failed++ )) || true; fi\n}\ncheck 3 4\necho $failed", "( [ $# -eq 0 ] ) && echo none", "",
		"! [ x$1 = y ]\necho $?", "case $(echo a) in a) echo yes ;; esac; matches() { [[ $2 == $1 ]]; }; matches 'a*' abc; echo $?", "# nothing",
	} {
		for _, shell := range []string{"bash", "source"} {
			var outputs [2]string

			for i, text := range []string{library, grading.GuardedFile(library)} {
				file := filepath.Join(t.TempDir(), "library.sh")
				require.NoError(t, os.WriteFile(file, []byte(text), 0o600))

				out, err := exec.CommandContext(t.Context(), "bash", "--noprofile", "--norc", "-c", shell+` "$0"`, file).CombinedOutput()
				require.NoError(t, err, "%s: %s", text, out)
				outputs[i] = string(out)
			}

			require.Equal(t, outputs[0], outputs[1], library)
		}
	}
}

// Arithmetic of other values is unchanged.
func TestArithmeticIsUnchanged(t *testing.T) {
	t.Parallel()

	for _, command := range []string{
		"false; [[ $? -eq 1 ]]", "false | true; [[ ${PIPESTATUS[0]} -eq 1 ]]", "set -u; [[ ${x:-3} -eq 3 ]]", "set -eu; (( x = 3 )); (( x-- )); echo $x",
		"f() { (( $# == 2 && $2 > $1 )); }; f 3 4", "a=(3 4); (( a[1]++, ${#a[@]} == 2 )); echo ${a[1]} $(( ${a[0]} + a[1] ))",
		"n=08; (( 10#$n == 8 ))", "e=1+2; echo $(( e * 2 )) $((-e))", "for ((i = 0, j = 9; i < j; i += 2, j--)); do echo $i; done", "x=abc; echo $(( ${#x} + $(echo 4) ))",
		"declare -A m=([k]=2); set -u; (( m[k] += 1 )); echo ${m[k]}", "echo \"$((1 + $(echo $(( 2 * 3 )) ) ))\"", "[[ $(echo ' 3 ') -eq 3 && a < b ]]",
		"RANDOM=42; echo $((RANDOM % 60)) $((RANDOM % 60))", "n=4; echo $((n > 3 ? n : 0)) $((n ** 2)) $((~n)) $((n++)) $n", "cat <<E\n$((1 + 2))\nE", "(( 0x1F == 31 )); [[ -3 -lt 0 ]]",
	} {
		requireUnchanged(t, command)
	}
}

// requireUnchanged requires that bash prints the same for a text with guards as for the text without.
func requireUnchanged(t *testing.T, command string) {
	t.Helper()

	var outputs [2]string

	for i, text := range []string{command, grading.Inserted(command)} {
		out, err := exec.CommandContext(t.Context(), "bash", "--noprofile", "--norc", "-c", text).CombinedOutput()
		require.NoError(t, err, "%s: %s", text, out)
		outputs[i] = string(out)
	}

	require.Equal(t, outputs[0], outputs[1], command)
}
