package grading_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

// What work prints is one value: no further words of a test, no pattern, no name and no assignment.
func TestOutputIsOneValue(t *testing.T) {
	t.Parallel()

	a := newAttacked(t)

	tests := []string{
		"test $(cat out) = 42", "[ $(cat out) = 42 ]", "[ `cat out` -eq 42 ]", "n=$(< out); [ $n = 42 ] && true", "read n < out; if [ $n != 42 ]; then false; fi && [ $n = 42 ]",
		"[ -n $(cat out) -a $(cat out) = 42 ]", "f() { [ $1 = 42 ]; }; f $(cat out)", "run-as-agent true; [ $(cat out) = 42 ]",
		"[[ 42 == $(cat out | xargs) ]]", "n=$(cat out | xargs); [[ 42 = $n ]]", "read -r n < out; m=$n; [[ 42 == $m ]]", "case 42 in $(cat out | xargs)) ;; *) false ;; esac",
		"want=42; [[ $(cat out) -eq $want ]]", "want=42; n=$(cat out); [[ $n -eq want ]]", "want=42; n=$(cat out); (( n == want ))", "mapfile -t n < out; want=42; (( ${n} == want ))",
		"want=42; n=$(cat out); m=$(( n + 0 )); [ $m = 42 ]", "n=$(cat out); ok=0; (( n == 42 )) && ok=1; [ $ok = 1 ]", "declare -i n; n=$(cat out); [ $n = 42 ]",
		"mapfile -t n < out; b=42; (( ${n[0]} == b ))", "mapfile -t n < out; b=42; (( n[0] == b ))", "while read -r p; do read -r p < out; p=${p%% *}; [[ 42 == $p ]] || exit; done <<< 42",
		"n=$(cat < <(cat out | xargs; : /tests)); [[ 42 == $n ]]", "b=42; [[ $(cat out) -eq $b ]]", "b=42; n=$(cat out); (( n == b ))", "b=42; n=$(cat out); (( $n == $b ))", "b=42; n=$(cat out | xargs); (( 10#$n == b ))",
		"want=42; local_n() { local -i n=$(cat out); [ $n = $want ]; }; local_n",
	}

	for n, c := range []string{
		"echo ' 42 ' > out",
		"echo 1 = 1 -o 1 > out", "echo '*' > out", "echo want > out", "echo want=42 > out", "echo n=42 > out", "echo ok=1 > out", "echo '[42]*' > out", "echo b > out", "echo 0+b > out",
	} {
		id := "work" + string(rune('a'+n))
		a.agent(t, id, cheat{agent: "cd workdir; " + c})

		record := a.grade(t, id, 0, style{verifier: commands(tests...)}, time.Minute)
		for _, result := range record.Commands {
			require.Equal(t, n == 0, result.ExitCode == 0, "%s: %+v", c, result)
		}
	}
}

// What the author writes is as many words, and the patterns, that it is without the guards.
func TestWordsAreUnchanged(t *testing.T) {
	t.Parallel()

	for _, command := range []string{
		`f() { test "$@"; }; f 3 = 3 -a 4 = 4; echo $?`, `f() { [ $* ]; }; f 3 = 4; echo $?`, `a=(3 = 3); [ "${a[@]}" ]; echo $? ${#a[@]}`, `x=; [ $x ]; echo $?; [ -z $x ]; echo $?`,
		`x=$(true); [ $x = 3 ] 2> /dev/null; echo $?; [ "$x" = "" ] && [ ${#x} -eq 0 ]; echo $?`, `for i in 1 2 3; do [ $i -lt 3 ] || break; done; echo $i`, `set -e; x=3; [ $x = 4 ] || echo no; [ $x = 3 ]; echo yes`,
		`(set -e; x=3; [ $x = 4 ]; echo not here); echo $?`, `n=5; __n=$(echo 5); test $n -eq $__n; echo $?`, `x=$(echo a b); if [ $x = a ]; then echo 1; else echo $?; fi 2> /dev/null`,
		`p='a*'; [[ abc == $p ]]; echo $?`, `[[ abc == a* && $(echo abc) == a* ]]; echo $?`, `p=$(echo 'a*'); [[ abc == $p ]]; echo $?`, `p=$(printf '%s*' a); case abc in $p) echo 1 ;; esac`,
		`x=$(pwd); [[ $x == "$(pwd)" && $x == $(pwd) && $x != $(pwd)x ]]; echo $?`, `[[ a.b =~ $(echo 'a.b') ]]; echo $?`,
		"n=$(seq 1); (( n == 1 )); echo $?; (( 1 + $(seq 4 4) == 5 )); echo $?; [[ $(seq 3 3) -eq 3 ]]; echo $?", "n=$(true); [[ $n -eq 0 ]]; echo $?; (( n += 2 )); echo $n", "n=$(seq 9 9); echo $((n + 1)) $(( -n )) $(( n ? 3 : 4 ))", "n=$(printf fF | cat); echo $((16#$n)) $(( 16#$(printf 0aF | cat) + $(printf 0xfF | cat) ))",
		"n=$(seq 7 7); (( x = n, x > 6 && n++ )); echo $x $n; for ((i = 0; i < n; i++)); do :; done; echo $i; (( n = n + 1, n = n + 1 )); echo $n", "read n <<< ' 12 '; echo $((10#$n)) $((n ** 2)) $((!n)) $((n--)) $n",
		"set -u; n=$(seq 2 2); echo $(( ${n:-0} * n )) $(( n )); (( m = n )); echo $m", "e=$(seq 2 2)+3; echo $((e * 2))", "declare -A m; k=$(echo key | cat); (( m[$k]++ )); echo ${m[key]}", "v=total; f() { (( $1 += 5 )); }; f total; echo $total",
		"mapfile -t l < <(printf 'name\\n42\\n'); i=1; (( l[1] == 42 )); echo $?; (( l[i] == 42 )); echo $?", "while read -r in p; do [[ $in == $p ]]; echo $?; done <<'E'\nabc a*\nE",
		"read -r p <<< 'a*'; [[ abc == $p ]]; echo $?", "printf 'abc a*\\n' | while read -r in p; do [[ $in == $p ]]; echo $?; done", "p=$(cat <<'E'\na*\nE\n); [[ abc == $p ]]; echo $?",
		"declare -i i=3; i+=4; i=i*2; echo $i; j=$(seq 5 5); i=j+$(seq 2 2); echo $i; local_i() { local -i k=$j; echo $k; }; local_i",
	} {
		requireUnchanged(t, command)
	}
}

// A virtual environment of the work is active without a run of its script.
func TestActivationOfAnEnvironment(t *testing.T) {
	t.Parallel()

	a := newAttacked(t)
	a.agent(t, "work", cheat{
		agent: `cd workdir; mkdir -p .venv/bin; printf '#!/bin/sh\necho $VIRTUAL_ENV' > .venv/bin/where; chmod +x .venv/bin/where; echo 'touch /verifier/logs/mine' > .venv/bin/activate`,
	})

	const active = `; test "$(where)" = /home/user/workdir/.venv && test ! -e $VERIFIER_DIR/mine`

	v := rollout.Verifier{
		Files: map[string]string{"own/bin/activate": "own=yes$#\n"},
		Commands: []string{
			"source .venv/bin/activate" + active, ". ~/workdir/.venv/bin/activate" + active, "cd .venv; source \"$PWD/bin/activate\"" + active, "cd .venv; source bin/activate" + active, "PATH=; . .venv/bin/activate && test -n $VIRTUAL_ENV && test ! -e $VERIFIER_DIR/mine",
			"source .venv/bin/activate; deactivate; ! where", "! source none/bin/activate", "set -eu; . \"$PWD/.venv/bin/activate\" > /dev/null && where | grep venv", "set -- a b; . $TESTS_DIR/own/bin/activate; test $own = yes2", "if ! . .venv/bin/activate; then exit 1; fi",
			"run-as-agent true; source .venv/bin/activate; test ! -e $VERIFIER_DIR/mine",
		},
	}

	for _, result := range a.grade(t, "work", 0, style{verifier: v}, time.Minute).Commands {
		require.Zero(t, result.ExitCode, "%+v", result)
	}
}
