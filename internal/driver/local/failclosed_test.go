package local_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/driver"
	"github.com/rolloutd/rolloutd/internal/driver/local"
	"github.com/rolloutd/rolloutd/internal/fault"
)

// A missing feature is reported at once; a sandbox never runs without it.
func TestNewRefuses(t *testing.T) {
	t.Parallel()

	for name, c := range map[string]struct {
		change func(*local.Options)
		kind   fault.Kind
	}{
		"no bwrap":         {func(o *local.Options) { o.Bwrap = "/no/such/bwrap" }, fault.Unavailable},
		"no sandboxd":      {func(o *local.Options) { o.SandboxdPath = "/no/such/sandboxd" }, fault.Unavailable},
		"no folder":        {func(o *local.Options) { o.Dir = "" }, fault.Invalid},
		"no agents":        {func(o *local.Options) { o.AgentsDir = "/no/such/agents" }, fault.Invalid},
		"no image":         {func(o *local.Options) { o.Image = "/no/such/image" }, fault.Invalid},
		"folder is a file": {func(o *local.Options) { o.Dir = "/etc/passwd" }, fault.Invalid},
	} {
		o := local.Options{Dir: t.TempDir(), SandboxdPath: sandboxdPath}
		c.change(&o)
		_, err := local.New(o)
		require.Equal(t, c.kind, fault.KindOf(err), "%s: %v", name, err)
	}
}

// Root without cgroups is refused unless the configuration allows it, and then Check reports it.
func TestNoCgroups(t *testing.T) {
	t.Parallel()
	needRoot(t)
	o := local.Options{Dir: t.TempDir(), SandboxdPath: sandboxdPath, CgroupRoot: t.TempDir()}
	_, err := local.New(o)
	require.Equal(t, fault.Unavailable, fault.KindOf(err), "%v", err)

	o.AllowWeak = true
	d, err := local.New(o)
	require.NoError(t, err)
	require.NoError(t, d.Create(t.Context(), "weak", tiny()))
	t.Cleanup(func() { require.NoError(t, d.Destroy(cleanupContext(t), "weak")) })
	u, err := d.Inspect(t.Context(), "weak")
	require.NoError(t, err)
	require.Equal(t, driver.NoUsage(), u)
	require.Contains(t, levels(d.Check(t.Context())), "cgroup limits: warn")
}

func levels(findings []driver.Finding) []string {
	names := map[driver.Level]string{driver.OK: "ok", driver.Warn: "warn", driver.Fail: "fail"}

	var list []string
	for _, f := range findings {
		list = append(list, f.Name+": "+names[f.Level])
	}

	return list
}

// The probe detects a bwrap that isolates nothing (an old version, a wrapper, a permissive kernel), and no
// sandbox is created with it.
func TestBwrapWithoutIsolationIsDetected(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.Chmod(filepath.Dir(dir), 0o755))
	require.NoError(t, os.Chmod(dir, 0o755))
	helper := filepath.Join(dir, "sandboxd")
	data, err := os.ReadFile(sandboxdPath)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(helper, data, 0o755))

	bare := filepath.Join(dir, "bwrap")
	script := fmt.Sprintf(
		"#!/bin/bash\n[ \"$1\" = --version ] && exec echo bare\nwhile [ \"$1\" != -- ]; do shift; done; shift 2\nexec timeout -s KILL 3 %s \"$@\" --model-addr 127.0.0.1:0\n",
		helper,
	)
	require.NoError(t, os.WriteFile(bare, []byte(script), 0o755))

	d := open(t, local.Options{SandboxdPath: helper, Bwrap: bare})
	err = d.Create(t.Context(), "bare", tiny())
	require.Equal(t, fault.Unavailable, fault.KindOf(err))
	require.ErrorContains(t, err, "probe")
	_, err = d.Dial(t.Context(), "bare")
	require.Equal(t, fault.SandboxLost, fault.KindOf(err))
	require.Contains(t, levels(d.Check(t.Context())), "isolation: fail")
	infos, err := d.List(t.Context())
	require.NoError(t, err)
	require.Empty(t, infos)
}

// The probe also detects a bwrap that starts sandboxes without one isolation feature. The error has the
// probe's findings.
func TestWeakBwrapIsDetected(t *testing.T) {
	t.Parallel()
	needRoot(t)

	real, err := exec.LookPath("bwrap")
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, os.Chmod(filepath.Dir(dir), 0o755))
	require.NoError(t, os.Chmod(dir, 0o755))
	weak := filepath.Join(dir, "bwrap")
	script := fmt.Sprintf(`#!/bin/bash
[ "$1" = --args ] || exec %[1]s "$@"
options=()
while IFS= read -r -d "" o; do
	if [ "$o" = --seccomp ]; then read -r -d "" _; else options+=("$o"); fi
done < /dev/fd/$2
shift 2
exec %[1]s "${options[@]}" "$@"
`, real)
	require.NoError(t, os.WriteFile(weak, []byte(script), 0o755))
	d := open(t, local.Options{Bwrap: weak})
	err = d.Create(t.Context(), "weak", tiny())
	require.ErrorContains(t, err, "refusing to run: inside a sandbox it was possible to open a vsock")
	_, err = d.Dial(t.Context(), "weak")
	require.Equal(t, fault.SandboxLost, fault.KindOf(err))
}

// A passed probe is cached for the next process, but only for the same kernel and programs.
func TestPassedProbeIsCached(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d := open(t, local.Options{Dir: dir})
	require.NoError(t, d.Create(t.Context(), "a", tiny()))
	t.Cleanup(func() { require.NoError(t, d.Destroy(cleanupContext(t), "a")) })

	record := filepath.Join(dir, "probe.json")
	kept, err := os.Stat(record)
	require.NoError(t, err)
	require.NoError(t, open(t, local.Options{Dir: dir}).Create(t.Context(), "a", tiny()))

	again, err := os.Stat(record)
	require.NoError(t, err)
	require.Equal(t, kept.ModTime(), again.ModTime())

	require.NoError(t, os.WriteFile(record, []byte(`{"boot":"another"}`), 0o600))
	require.NoError(t, open(t, local.Options{Dir: dir}).Create(t.Context(), "a", tiny()))

	data, err := os.ReadFile(record)
	require.NoError(t, err)
	require.NotContains(t, string(data), "another")
}

func TestCheck(t *testing.T) {
	t.Parallel()

	findings := open(t, local.Options{}).Check(t.Context())
	for _, want := range []string{"bubblewrap: ok", "system call filter: ok", "isolation: ok"} {
		require.Contains(t, levels(findings), want)
	}

	for _, f := range findings {
		require.NotEmpty(t, f.Detail, f.Name)
		require.Equal(t, f.Level == driver.OK, f.Fix == "", f.Name)
	}
}
