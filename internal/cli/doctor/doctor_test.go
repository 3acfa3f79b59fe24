package doctor_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/agent/opencode/binary"
	"github.com/rolloutd/rolloutd/internal/cli/doctor"
	"github.com/rolloutd/rolloutd/internal/driver"
)

func TestPrintSaysWhetherItRuns(t *testing.T) {
	t.Parallel()

	ok := driver.Finding{Name: "a", Detail: "fine", Fix: "never shown"}
	warn := driver.Finding{Name: "b", Level: driver.Warn, Detail: "meh", Fix: "do b"}

	fail := driver.Finding{Name: "c", Level: driver.Fail, Detail: "no", Fix: "do c"}
	for _, c := range []struct {
		findings []driver.Finding
		runs     bool
		want     []string
	}{
		{[]driver.Finding{ok}, true, []string{"ok    a ", "rolloutd can run on this machine"}},
		{[]driver.Finding{ok, warn}, true, []string{"warn  b ", "fix: do b", "with limits: 1 warn above"}},
		{[]driver.Finding{fail, warn}, false, []string{"FAIL  c ", "fix: do c", "cannot run rollouts on this machine: 1 FAIL"}},
	} {
		var out strings.Builder
		require.Equal(t, c.runs, doctor.Print(&out, c.findings))

		for _, want := range c.want {
			require.Contains(t, out.String(), want)
		}

		require.NotContains(t, out.String(), "never shown")
	}
}

func TestPortsReportsFreeTakenAndOurs(t *testing.T) {
	t.Parallel()

	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)

	defer l.Close()

	free := doctor.Port{Name: "free", Address: "127.0.0.1:0"}
	taken := doctor.Port{Name: "taken", Address: l.Addr().String(), Setting: "--port"}
	got := doctor.Ports("127.0.0.1:1", []doctor.Port{free, taken})(t.Context())
	require.Len(t, got, 2)
	require.Equal(t, driver.OK, got[0].Level)
	require.Equal(t, driver.Warn, got[1].Level)
	require.Contains(t, got[1].Fix, "--port")

	ours := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer ours.Close()

	got = doctor.Ports(strings.TrimPrefix(ours.URL, "http://"), []doctor.Port{taken})(t.Context())
	require.Len(t, got, 1)
	require.Contains(t, got[0].Detail, "is already running")
}

// Without npm the agent must be installed already. The test is not parallel, because PATH is global to the process.
func TestAgentNeedsNpmOnlyToBeFetched(t *testing.T) {
	t.Setenv("PATH", t.TempDir())

	dir := t.TempDir()
	for _, f := range doctor.Agent(dir)(t.Context()) {
		require.Equal(t, driver.Fail, f.Level, f.Name)
		require.NotEmpty(t, f.Fix)
	}

	path := filepath.Join(dir, "opencode", binary.DefaultVersion, "opencode")
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(t, os.WriteFile(path, nil, 0o700))
	got := doctor.Agent(dir)(t.Context())
	require.Equal(t, driver.OK, got[0].Level)
	require.Equal(t, driver.Warn, got[1].Level)
}

type checker []driver.Finding

func (c checker) Check(context.Context) []driver.Finding { return c }

func TestDataFolderMustBeWritable(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))

	for path, level := range map[string]driver.Level{
		dir: driver.OK, filepath.Join(dir, "not", "yet"): driver.OK,
		file: driver.Fail, filepath.Join(file, "below"): driver.Fail,
	} {
		found := doctor.Data(path)(t.Context())
		require.Equal(t, level, found[0].Level, "%s: %s", path, found[0].Detail)
	}

	require.NoDirExists(t, filepath.Join(dir, "not"), "the check creates nothing")
}

func TestWeakSandboxesAreReported(t *testing.T) {
	t.Parallel()

	works := func() (driver.Checker, func(), error) { return checker{{Name: "self-test"}}, func() {}, nil }
	require.Len(t, doctor.Sandboxes(false, works)(t.Context()), 1)
	got := doctor.Sandboxes(true, works)(t.Context())
	require.Equal(t, driver.Warn, got[0].Level)
	require.Contains(t, got[0].Detail, "run trusted agents only")

	broken := func() (driver.Checker, func(), error) { return nil, nil, errors.New("no sandboxd") }
	got = doctor.Sandboxes(false, broken)(t.Context())
	require.Equal(t, driver.Fail, got[0].Level)
}

func TestTemporalWithoutCredentialsIsAWarning(t *testing.T) {
	t.Parallel()
	open := doctor.TemporalAccess("127.0.0.1:7233", false)(t.Context())
	require.Equal(t, driver.Warn, open[0].Level)
	require.Contains(t, open[0].Detail, "every user of this machine")
	require.Equal(t, driver.OK, doctor.TemporalAccess("127.0.0.1:7233", true)(t.Context())[0].Level)
}

func TestUnreachableTemporalIsAWarning(t *testing.T) {
	t.Parallel()
	up := doctor.Temporal("x:1", func(context.Context) error { return nil })(t.Context())
	require.Equal(t, driver.OK, up[0].Level)
	away := doctor.Temporal("x:1", func(context.Context) error { return errors.New("refused") })(t.Context())
	require.Equal(t, driver.Warn, away[0].Level)
	require.Contains(t, away[0].Fix, "rolloutd-dev temporal")
}

func TestWarmCountsIdleSandboxes(t *testing.T) {
	t.Parallel()

	data := t.TempDir()
	for _, name := range []string{"warm-1", "r1.1"} {
		require.NoError(t, os.MkdirAll(filepath.Join(data, "sandboxes", name), 0o700))
	}

	require.Contains(t, doctor.Warm(data, 2)(t.Context())[0].Detail, "1 of at most 2")
	require.Contains(t, doctor.Warm(data, 0)(t.Context())[0].Detail, "sandbox.warm is 0")
}

func TestStore(t *testing.T) {
	t.Parallel()

	refused := errors.New("the store refuses the credentials")
	check := func(err error) func(context.Context) error { return func(context.Context) error { return err } }
	require.Equal(t, driver.OK, doctor.Store("/data/store", check(nil))(t.Context())[0].Level)
	require.Contains(t, doctor.Store("/data/store", check(refused))(t.Context())[0].Fix, "make the folder writable")
	require.Equal(t, driver.OK, doctor.Store("s3://bucket", check(nil))(t.Context())[0].Level)
	bad := doctor.Store("s3://bucket", check(refused))(t.Context())[0]
	require.Equal(t, driver.Fail, bad.Level)
	require.Equal(t, refused.Error(), bad.Detail)
}

// A disk without the room that rollouts need is a failure, also if the folder does not exist yet.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "not", "yet")
	require.Equal(t, driver.OK, doctor.Disk(dir, 1)(t.Context())[0].Level)
	full := doctor.Disk(dir, 1<<40)(t.Context())[0]
	require.Equal(t, driver.Fail, full.Level)
	require.Contains(t, full.Detail, "store.min_free_mib")
	require.NoDirExists(t, dir)
}

func TestKey(t *testing.T) {
	t.Parallel()

	check := func(err error) func(context.Context) (string, error) {
		return func(context.Context) (string, error) { return "the key", err }
	}
	require.Equal(t, driver.Finding{Name: "encryption key", Detail: "the key"}, doctor.Key(check(nil))(t.Context())[0])
	bad := doctor.Key(check(errors.New("another key")))(t.Context())[0]
	require.Equal(t, driver.Fail, bad.Level)
	require.Equal(t, "another key", bad.Detail)
}
