package sandboxtest

import (
	"archive/tar"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/sandboxd/runas"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

func userTests() map[string]func(*testing.T, Harness) {
	return map[string]func(*testing.T, Harness){
		"Verifier":         verifierUser,
		"Unknown":          unknownUser,
		"Files":            userFiles,
		"Closed":           verifierIsClosed,
		"Unprivileged":     unprivileged,
		"RunAsAgent":       runAsAgent,
		"RunAsAgentEnds":   runAsAgentEnds,
		"RunAsAgentCloses": runAsAgentCloses,
	}
}

// separate reports whether this driver gives the users ids of their own. One that does not is judged on the rest.
func (p *Place) separate() bool {
	p.t.Helper()
	info, err := p.Info(p.t.Context())
	require.NoError(p.t, err)

	return info.SeparateUsers
}

func verifierUser(t *testing.T, h Harness) {
	p := h.place(t)
	v := p.User(wire.VerifierUser)
	ran := v.Bash(
		"pwd; echo $HOME; for d in home tests logs; do echo x > /verifier/$d/x && stat -c '%a %U' /verifier/$d; done",
	)

	owner := "700 user\n"
	if p.separate() {
		owner = "700 verifier\n"

		require.Equal(
			t,
			"1000 1000\n1001 1001\n",
			p.Bash("echo $(id -u) $(id -g)").Stdout+v.Bash("echo $(id -u) $(id -g)").Stdout,
		)
	}

	require.Equal(t, "/verifier/home\n/verifier/home\n"+owner+owner+owner, ran.Stdout, ran.Stderr)
	require.Equal(t, "/home/user\n", p.Bash("pwd").Stdout)
}

func unknownUser(t *testing.T, h Harness) {
	p := h.place(t)
	_, err := p.Start(t.Context(), "x", wire.Process{Argv: []string{"true"}, User: "root"})
	require.Equal(t, fault.Invalid, fault.KindOf(err), "%v", err)
	_, err = p.As("root").ReadFile(t.Context(), "/etc/passwd", 1<<20)
	require.Equal(t, fault.Invalid, fault.KindOf(err), "%v", err)
}

// A file that is written for a user belongs to that user, and is read with that user's rights.
func userFiles(t *testing.T, h Harness) {
	p := h.place(t)
	v := p.User(wire.VerifierUser)
	require.NoError(t, v.WriteFile(t.Context(), "/verifier/tests/deep/test.sh", newText("secret\n"), 0o644))
	require.NoError(t, v.PutTar(t.Context(), "/verifier/tests", archive(t, tar.Header{
		Name:     "more",
		Typeflag: tar.TypeReg,
		Mode:     0o644,
	})))
	require.NoError(t, p.WriteFile(t.Context(), "/home/user/private", newText("mine\n"), 0o600))
	got, err := v.ReadFile(t.Context(), "/verifier/tests/deep/test.sh", 100)
	require.NoError(t, err)
	require.Equal(t, "secret\n", string(got))

	if !p.separate() {
		return
	}

	require.Equal(
		t,
		"verifier\nverifier\nverifier\n",
		v.Bash("stat -c %U /verifier/tests/deep /verifier/tests/deep/test.sh /verifier/tests/more").Stdout,
	)
	require.Equal(t, "user\n", p.Bash("stat -c %U /home/user/private").Stdout)

	for name, err := range map[string]error{
		"read":   second(p.ReadFile(t.Context(), "/verifier/tests/deep/test.sh", 100)),
		"write":  p.WriteFile(t.Context(), "/verifier/logs/reward.txt", newText("1"), 0o644),
		"remove": p.Remove(t.Context(), "/verifier/tests/more"),
		"pack":   second(p.GetTar(t.Context(), "/verifier/tests")),
		"unpack": p.PutTar(t.Context(), "/verifier/logs", archive(t, tar.Header{
			Name:     "reward.txt",
			Typeflag: tar.TypeReg,
			Mode:     0o644,
		})),
		"others": second(v.ReadFile(t.Context(), "/home/user/private", 100)),
		"places": v.WriteFile(t.Context(), "/home/user/x", newText("x"), 0o644),
		"socket": p.WriteFile(t.Context(), wire.VerifierRun+"/x", newText("x"), 0o644),
		"root":   p.WriteFile(t.Context(), "/verifier/x", newText("x"), 0o644),
	} {
		require.Equal(t, fault.Invalid, fault.KindOf(err), "%s: %v", name, err)
	}
}

func second[T any](_ T, err error) error { return err }

// The agent's processes reach neither the verifier's files nor its processes, and do not see their command lines.
func verifierIsClosed(t *testing.T, h Harness) {
	p := h.place(t)
	if !p.separate() {
		t.Skip("users are not separate")
	}

	v := p.User(wire.VerifierUser)
	require.NoError(t, v.WriteFile(t.Context(), "/verifier/tests/expected", newText("secret\n"), 0o644))
	st := v.StartBash("grade", "echo up; while :; do sleep 1; done; : expected-answer")
	v.Says("grade", "up\n")

	pid := strconv.Itoa(st.PID)
	require.Empty(t, p.Bash(`for f in /verifier/*; do ls $f; echo x > $f/x; done; cat /verifier/tests/expected
		for f in environ mem maps; do head -c1 /proc/`+pid+`/$f; done; ls /proc/`+pid+`/fd /proc/`+pid+`/cwd`).Stdout)

	if !h.ShowsVerifier {
		require.Empty(
			t,
			p.Bash(
				`grep -l expected-ans[w]er /proc/[0-9]*/cmdline; ls /proc/`+pid+`; cat /proc/`+pid+`/cmdline`,
			).Stdout,
		)
	}

	for _, script := range []string{
		"kill -9 %d", "kill -STOP %d", "prlimit --nofile=1 --pid %d", "renice -n 19 -p %d",
		"kill -9 -1; kill -STOP -1", "kill -STOP 1",
	} {
		p.Bash(strings.ReplaceAll(script, "%d", strconv.Itoa(st.PID)))
	}

	require.Equal(t, "ok\n", v.Bash("echo ok").Stdout)
	require.Contains(
		t,
		v.Bash("cat /proc/"+strconv.Itoa(st.PID)+"/status; cat /proc/*/cmdline").Stdout,
		"expected-answer",
	)
	got, err := v.Status(t.Context(), "grade")
	require.NoError(t, err)
	require.True(t, got.Running)
}

// The agent has no capabilities, the verifier CAP_DAC_OVERRIDE and CAP_FOWNER, and neither can have any others.
func unprivileged(t *testing.T, h Harness) {
	p := h.place(t)

	verifier := "0000000000000000"
	if p.separate() {
		verifier = "000000000000000a"
	}

	for user, set := range map[string]string{"": "0000000000000000", wire.VerifierUser: verifier} {
		status := p.User(user).Bash("grep -E '^(Cap|NoNewPrivs)' /proc/self/status | tr -d '\\t'").Stdout
		require.Equal(
			t,
			strings.ReplaceAll(
				"CapInh:SET\nCapPrm:SET\nCapEff:SET\nCapBnd:0000000000000000\nCapAmb:SET\nNoNewPrivs:1\n",
				"SET",
				set,
			),
			status,
			user,
		)
	}

	require.NotZero(t, p.Bash("unshare -U true").ExitCode)
}

// What the verifier runs of the agent's work has the agent's user, home and folder, and the verifier's streams.
func runAsAgent(t *testing.T, h Harness) {
	p := h.place(t)
	v := p.User(wire.VerifierUser)
	require.NoError(t, v.WriteFile(t.Context(), "/verifier/tests/t", newText("secret\n"), 0o644))
	ran := v.Bash(`cd /verifier/tests; export SECRET_DIR=/verifier/tests GIVEN=1
		echo in | run-as-agent bash -c 'cat; echo $HOME $PWD $GIVEN $SECRET_DIR; id -un; echo err >&2; exit 7'; echo $?
		cd /home/user; run-as-agent pwd; run-as-agent no-such-program; echo $?; run-as-agent; echo $?
		run-as-agent bash -c 'kill -9 $$'; echo $?`)
	require.Equal(
		t,
		"in\n/home/user /home/user/workdir 1\nuser\n7\n/home/user\n126\n126\n137\n",
		ran.Stdout,
		ran.Stderr,
	)
	require.Contains(t, ran.Stderr, "err\n")
	require.Contains(t, ran.Stderr, "no-such-program")

	if !p.separate() {
		return
	}

	ran = v.Bash(
		`run-as-agent bash -c 'cat /verifier/tests/t; ls /verifier/run; echo 1 > /verifier/logs/reward.txt; ls -l /proc/self/fd | grep -c verifier; kill -9 -1; kill -9 '$$; echo alive; ls /verifier/logs`,
	)
	require.Equal(t, "0\nalive\n", ran.Stdout)
	require.Contains(t, p.Bash(": < "+runas.Socket).Stderr, "Permission denied")
	require.Contains(t, v.Bash(": < "+runas.Socket).Stderr, "No such device", "it is a socket, and can be reached")
	require.Equal(t, "126\n", p.User("").Bash("PATH=/none /opt/rolloutd/bin/run-as-agent true; echo $?").Stdout)
	require.Equal(t, "0\n", p.Bash("run-as-agent true; echo $?").Stdout, "the agent's user needs no help")
}

// The program ends with the helper that asked for it.
func runAsAgentEnds(t *testing.T, h Harness) {
	p := h.place(t)
	v := p.User(wire.VerifierUser)
	v.StartBash("job", "exec run-as-agent bash -c '(setsid sleep 1001 &); sleep 1002 & echo up; wait'")
	v.Says("job", "up\n")
	require.NoError(t, v.Kill(t.Context(), "job"))
	p.Eventually(func() bool {
		return p.Bash("cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -c 'sleep 100[2]'").Stdout == "0\n"
	}, "the session of the program ends")
}

// The descriptors of the helper do not lead the program to anything but its streams.
func runAsAgentCloses(t *testing.T, h Harness) {
	p := h.place(t)

	ran := p.User(wire.VerifierUser).
		Bash("exec 7< /etc/passwd; run-as-agent bash -c 'echo /proc/$$/fd/*' | sed 's#/proc/[0-9]*/fd/##g'")
	if p.separate() {
		require.Equal(t, "0 1 2 3\n", ran.Stdout, "the last one is the folder that bash lists")
	}
}
