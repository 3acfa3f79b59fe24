package cgroup_test

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/driver"
	"github.com/rolloutd/rolloutd/internal/driver/cgroup"
)

// inner is the cgroup of the processes in the sandbox "a", below the cgroup of the sandbox.
const inner = "rolloutd/a/work"

// plant writes files of a fake cgroup tree, which a real kernel would provide.
func plant(t *testing.T, root string, files map[string]string) {
	t.Helper()

	for path, text := range files {
		path = filepath.Join(root, path)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
}

func requireFiles(t *testing.T, root string, want map[string]string) {
	t.Helper()

	for path, text := range want {
		got, err := os.ReadFile(filepath.Join(root, path))
		require.NoError(t, err)
		require.Equal(t, text, string(got), path)
	}
}

func TestCgroupVersion2(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	plant(t, root, map[string]string{"cgroup.controllers": "cpu memory pids\n", "rolloutd/a/memory.swap.max": "max\n"})

	mib := func(n int) string { return strconv.Itoa(n << 20) }
	c := cgroup.New(root)
	require.Equal(t, 2, c.Version)
	require.NoError(t, c.Prepare())
	e, err := c.Create("a", driver.Spec{CPU: 1.5, MemoryMiB: 3, PIDs: 7})
	require.NoError(t, err)
	require.Equal(t, filepath.Join(root, "rolloutd/a/sandboxd"), e.Folder)
	require.Empty(t, e.Sandboxd)
	require.Equal(t, filepath.Join(root, inner), e.WorkFolder)
	require.Equal(t, []string{filepath.Join(root, inner, "cgroup.procs")}, e.Work)
	requireFiles(t, root, map[string]string{
		"cgroup.subtree_control":            "+memory +pids +cpu",
		"rolloutd/cgroup.subtree_control":   "+memory +pids +cpu",
		"rolloutd/a/cgroup.subtree_control": "+memory +pids +cpu",
		"rolloutd/a/memory.max":             mib(3 + 256),
		"rolloutd/a/memory.swap.max":        "0",
		inner + "/memory.max":               mib(3),
		inner + "/pids.max":                 "7",
		inner + "/cpu.max":                  "150000 100000",
		"rolloutd/a/cpu.weight":             "100",
	})
	require.Equal(t, driver.NoUsage(), c.Counters("a").Read())
	plant(t, root, map[string]string{
		inner + "/pids.events":     "max 4\n",
		"rolloutd/a/memory.events": "low 0\nhigh 0\nmax 12\noom 3\noom_kill 2\n",
		inner + "/memory.peak":     "4096\n",
		"rolloutd/a/cpu.stat":      "usage_usec 1500\nuser_usec 1000\n",
		"rolloutd/a/cgroup.kill":   "",
	})
	require.Equal(t, driver.Usage{
		OOMKills:        2,
		ForksRefused:    4,
		PeakMemoryBytes: 4096,
		CPU:             1500 * time.Microsecond,
	}, c.Counters("a").Read())
	require.True(t, c.LimitReached("a"))
	plant(t, root, map[string]string{"rolloutd/a/memory.events": "max 0\noom 0\noom_kill 2\n"})
	require.False(t, c.LimitReached("a"))
	require.True(t, c.LimitReached("b"), "unknown")
	require.NoError(t, c.Kill("a"))
	requireFiles(t, root, map[string]string{"rolloutd/a/cgroup.kill": "1"})
}

func TestCgroupVersion1(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	plant(t, root, map[string]string{
		"memory/cgroup.procs":  "",
		"pids/cgroup.procs":    "",
		"cpu/cgroup.procs":     "",
		"cpuacct/cgroup.procs": "",
		"memory/" + inner + "/memory.memsw.limit_in_bytes":          "max",
		"memory/" + inner + "/memory.kmem.tcp.limit_in_bytes":       "max",
		"memory/rolloutd/a/sandboxd/memory.kmem.tcp.limit_in_bytes": "max",
	})
	c := cgroup.New(root)
	require.Equal(t, 1, c.Version)
	require.NoError(t, c.Prepare())
	e, err := c.Create("a", driver.Spec{CPU: 0.5, MemoryMiB: 1, PIDs: 9})
	require.NoError(t, err)
	require.Empty(t, e.Folder)
	require.Empty(t, e.WorkFolder)
	require.NoError(t, c.Delegate("a", 1000))

	for i, controller := range []string{"cpu", "cpuacct", "memory", "pids"} {
		require.Equal(t, filepath.Join(root, controller, "rolloutd/a/sandboxd/tasks"), e.Sandboxd[i])
		require.Equal(t, filepath.Join(root, controller, inner, "tasks"), e.Work[i])
	}

	requireFiles(t, root, map[string]string{
		"memory/rolloutd/a/memory.limit_in_bytes":                   "269484032",
		"memory/" + inner + "/memory.limit_in_bytes":                "1048576",
		"memory/" + inner + "/memory.memsw.limit_in_bytes":          "1048576",
		"memory/" + inner + "/memory.kmem.tcp.limit_in_bytes":       "67108864",
		"memory/rolloutd/a/sandboxd/memory.kmem.tcp.limit_in_bytes": "67108864",
		"pids/" + inner + "/pids.max":                               "9",
		"cpu/" + inner + "/cpu.cfs_quota_us":                        "50000",
		"cpu/" + inner + "/cpu.cfs_period_us":                       "100000",
		"cpu/rolloutd/a/cpu.shares":                                 "1024",
	})
	plant(t, root, map[string]string{
		"pids/" + inner + "/pids.events":                 "max 6\n",
		"memory/" + inner + "/memory.oom_control":        "oom_kill_disable 0\nunder_oom 0\noom_kill 5\n",
		"memory/" + inner + "/memory.max_usage_in_bytes": "77\n", "cpuacct/rolloutd/a/cpuacct.usage": "123456\n",
	})
	require.Equal(t, driver.Usage{
		OOMKills:        5,
		ForksRefused:    6,
		PeakMemoryBytes: 77,
		CPU:             123456,
	}, c.Counters("a").Read())
	require.True(t, c.LimitReached("a"), "unknown")
}

// If one controller is missing, no cgroups are used: a partial limit would look like a complete one.
func TestCgroupMissing(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	plant(t, root, map[string]string{"memory/cgroup.procs": "", "pids/cgroup.procs": "", "cpu/cgroup.procs": ""})
	c := cgroup.New(root)
	require.Zero(t, c.Version)
	require.Error(t, c.Prepare())
}

// Sandboxes swap only with Swap. Reclaim names the kernel's file that frees their memory, if there is one.
func TestSwap(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	plant(t, root, map[string]string{
		"cgroup.controllers": "cpu memory pids\n", "rolloutd/a/memory.swap.max": "max\n", inner + "/memory.reclaim": "",
	})
	c := cgroup.New(root)
	e, err := c.Create("a", driver.Spec{MemoryMiB: 3})
	require.NoError(t, err)
	require.Empty(t, e.Reclaim)

	c.Swap = true
	e, err = c.Create("a", driver.Spec{MemoryMiB: 3})
	require.NoError(t, err)
	require.Equal(t, filepath.Join(root, inner, "memory.reclaim"), e.Reclaim)
	requireFiles(t, root, map[string]string{"rolloutd/a/memory.swap.max": "3145728"})

	root = t.TempDir()
	plant(t, root, map[string]string{
		"memory/cgroup.procs": "", "pids/cgroup.procs": "", "cpu/cgroup.procs": "", "cpuacct/cgroup.procs": "",
		"memory/" + inner + "/memory.force_empty": "",
	})
	c = cgroup.New(root)
	c.Swap = true
	require.NoError(t, c.Prepare())
	e, err = c.Create("a", driver.Spec{MemoryMiB: 3})
	require.NoError(t, err)
	require.Equal(t, filepath.Join(root, "memory", inner, "memory.force_empty"), e.Reclaim)
}
