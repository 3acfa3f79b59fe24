package grading_test

import (
	"fmt"
	"os/exec"
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
