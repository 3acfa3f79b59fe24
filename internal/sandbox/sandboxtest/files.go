package sandboxtest

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/fault"
)

func fileTests() map[string]func(*testing.T, Harness) {
	return map[string]func(*testing.T, Harness){
		"WriteRead":       writeRead,
		"ReadRefuses":     readRefuses,
		"WriteRefuses":    writeRefuses,
		"LinksNotWritten": linksNotWritten,
		"LinkSwapper":     linkSwapper,
		"Remove":          remove,
		"RemoveDeep":      removeDeep,
		"OutOfDisk":       outOfDisk,
	}
}

// owner is the name of the agent's user.
func (h Harness) owner() string {
	if h.Root {
		return "root"
	}

	return "user"
}

func newText(s string) io.Reader { return strings.NewReader(s) }

func writeRead(t *testing.T, h Harness) {
	p := h.place(t)

	big := bytes.Repeat([]byte("\x00\xff data"), 1<<20)
	for path, data := range map[string][]byte{
		"/home/user/workdir/a/b/c.txt": []byte("text\n"),
		"/home/user/empty":             {},
		"/tmp/with blank & ünïcode\n?": []byte("odd name"),
		"/home/user/big":               big,
	} {
		require.NoError(t, p.WriteFile(t.Context(), path, bytes.NewReader(data), 0o640))
		got, err := p.ReadFile(t.Context(), path, int64(len(data)))
		require.NoError(t, err)
		require.True(t, bytes.Equal(data, got), path)
	}

	require.Equal(t, "640 "+h.owner()+"\n", p.Bash("stat -c '%a %U' /home/user/workdir/a/b/c.txt").Stdout)
	require.NoError(t, p.WriteFile(t.Context(), "/home/user/empty", newText("new"), 0o4755))
	require.Equal(
		t,
		"755 new\n",
		p.Bash("stat -c %a /home/user/empty | tr '\n' ' '; cat /home/user/empty; echo").Stdout,
	)
	require.Empty(t, p.Bash("find /home/user /tmp -name '.rolloutd*'").Stdout, "nothing is left half written")
}

func readRefuses(t *testing.T, h Harness) {
	p := h.place(t)
	setup := p.Bash(`cd /home/user; mkdir dir real; echo key > real/file; echo 12345 > five; mkfifo fifo
		ln -s real/file link; ln -s real linkdir; ln -s /etc/passwd out; ln -s /proc/1/environ env; ln -s . loop; : > zero`)
	require.Zero(t, setup.ExitCode, setup.Stderr)

	for path, want := range map[string]fault.Kind{
		"/home/user/missing":        fault.NotFound,
		"/home/user/no/such/dir":    fault.NotFound,
		"/home/user/dir":            fault.Invalid,
		"/home/user/fifo":           fault.Invalid,
		"/home/user/link":           fault.Invalid,
		"/home/user/linkdir/file":   fault.Invalid,
		"/home/user/out":            fault.Invalid,
		"/home/user/env":            fault.Invalid,
		"/home/user/loop/zero":      fault.Invalid,
		"/home/user/five":           fault.Invalid, // six bytes, five are allowed
		"/home/user/five/x":         fault.Invalid,
		"/dev/zero":                 fault.Invalid,
		"relative":                  fault.Invalid,
		"":                          fault.Invalid,
		"/home/user/" + longName():  fault.Invalid,
		"/home/user/../../tmp/none": fault.NotFound,
	} {
		_, err := p.ReadFile(t.Context(), path, 5)
		require.Equal(t, want, fault.KindOf(err), "%.40q: %v", path, err)
	}

	data, err := p.ReadFile(t.Context(), "/home/user/zero", 0)
	require.NoError(t, err)
	require.Empty(t, data)
}

func longName() string { return strings.Repeat("n", 300) }

func writeRefuses(t *testing.T, h Harness) {
	p := h.place(t)
	require.Zero(t, p.Bash("cd /home/user; mkdir dir; ln -s /tmp linkdir; : > file").ExitCode)

	paths := []string{
		"/home/user/dir", "/home/user/linkdir/x", "/home/user/file/x", "/opt/rolloutd/new", "relative", "/",
		"/home/user/" + longName(),
	}
	if !h.Root {
		paths = append(paths, "/usr/bin/new", "/etc/passwd")
	}

	for _, path := range paths {
		err := p.WriteFile(t.Context(), path, newText("x"), 0o644)
		require.Equal(t, fault.Invalid, fault.KindOf(err), "%.40q: %v", path, err)
	}

	require.NotZero(t, p.Bash("test -f /tmp/x").ExitCode)
}

// What is written takes the place of a link or of another name of the file; neither's target changes.
func linksNotWritten(t *testing.T, h Harness) {
	p := h.place(t)
	require.Zero(t, p.Bash("cd /home/user; echo old > target; ln -s target soft; ln target hard").ExitCode)

	for _, name := range []string{"soft", "hard"} {
		require.NoError(t, p.WriteFile(t.Context(), "/home/user/"+name, newText("new\n"), 0o644))
	}

	require.Equal(t, "old\nnew\nnew\n", p.Bash("cd /home/user; cat target soft hard").Stdout)
	require.Equal(t, "regular file\n", p.Bash("stat -c %F /home/user/soft").Stdout)
}

// A process that swaps a directory for a link all the time never gets the supervisor to read through it.
func linkSwapper(t *testing.T, h Harness) {
	p := h.place(t)
	require.Zero(
		t,
		p.Bash(
			"cd /home/user; mkdir real elsewhere; echo good > real/f; echo BAD > elsewhere/f; cp -r real place",
		).ExitCode,
	)
	p.StartBash("swapper", `cd /home/user; echo up
		while :; do mv -T place away; ln -s elsewhere place; rm place; mv -T away place; done`)
	p.Says("swapper", "up\n")

	var good, refused int

	for range 500 {
		data, err := p.ReadFile(t.Context(), "/home/user/place/f", 100)
		if err != nil {
			refused++
			continue
		}

		require.Equal(t, "good\n", string(data))

		good++
	}

	t.Logf("%d read, %d refused", good, refused)
}

func remove(t *testing.T, h Harness) {
	p := h.place(t)
	setup := p.Bash(
		`cd /home/user; mkdir -p tree/a/b tree/locked/in keep; echo x > keep/file; echo x > tree/a/b/f; : > tree/locked/in/f
		ln -s ../keep tree/link; ln -s /home/user/keep tree/a/abs; ln -s keep top; mkfifo tree/fifo
		chmod 000 tree/locked/in tree/locked; chmod 555 tree/a; : > $'tree/odd\nname'; : > tree/-rf`,
	)
	require.Zero(t, setup.ExitCode, setup.Stderr)

	for _, path := range []string{"tree", "top", "missing", "no/such/dir", "keep/file/x"} {
		err := p.Remove(t.Context(), "/home/user/"+path)
		if path == "keep/file/x" {
			require.Equal(t, fault.Invalid, fault.KindOf(err))
			continue
		}

		require.NoError(t, err, path)
	}

	require.Equal(t, "keep\nx\n", p.Bash("cd /home/user; ls -d keep tree top; cat keep/file").Stdout)
	require.Error(t, p.Remove(t.Context(), "/"))
	require.Error(t, p.Remove(t.Context(), "/opt/rolloutd/sandboxd"))
	require.True(t, h.Root || p.Remove(t.Context(), "/usr/bin/env") != nil)
}

// Deeper than there are descriptors to hold. A folder with a name of sandboxd's own does not stop it.
func removeDeep(t *testing.T, h Harness) {
	p := h.place(t)
	made := p.Bash(
		`p=$(printf 'd/%.0s' $(seq 1900)); mkdir -p /home/user/top/$p; cd /home/user/top/$p && mkdir -p $p && : > file; mkdir -p /home/user/.rolloutd-removed-1/x`,
	)
	require.Zero(t, made.ExitCode, made.Stderr)
	require.NoError(t, p.Remove(t.Context(), "/home/user/top"))
	require.Equal(t, ".rolloutd-removed-1\n", p.Bash("cd /home/user; ls -d .rolloutd-* top").Stdout)
}

func outOfDisk(t *testing.T, h Harness) {
	p := h.place(t)
	huge := io.LimitReader(zeros{}, 200<<20)
	err := p.WriteFile(t.Context(), "/home/user/huge", huge, 0o644)
	require.Equal(t, fault.OutOfDisk, fault.KindOf(err), "%v", err)
	require.Empty(t, p.Bash("find /home/user -type f -size +1").Stdout, "the part is taken away again")
	full := p.Bash("head -c 200M /dev/zero > /home/user/full")
	require.NotZero(t, full.ExitCode)
	err = p.WriteFile(t.Context(), "/home/user/small", io.LimitReader(zeros{}, 1<<20), 0o644)
	require.Equal(t, fault.OutOfDisk, fault.KindOf(err), "%v", err)
	require.NoError(t, p.Remove(t.Context(), "/home/user/full"))
	require.NoError(t, p.WriteFile(t.Context(), "/home/user/small", newText("fits"), 0o644))
}

// zeros is an endless reader.
type zeros struct{}

// Read implements io.Reader.
func (zeros) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}
