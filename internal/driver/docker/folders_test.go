package docker_test

import (
	"context"
	"crypto/rand"
	"os"
	"path/filepath"
	"testing"

	"github.com/moby/moby/client"
	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/driver"
	"github.com/rolloutd/rolloutd/internal/driver/docker"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandbox"
	"github.com/rolloutd/rolloutd/internal/sandbox/sandboxtest"
)

// importApp loads the image of the suite's application into the daemon, changed by fill and by instructions
// of a Dockerfile.
func importApp(t *testing.T, name string, fill func(folder string), changes ...string) {
	t.Helper()
	e, folder := engine(t), t.TempDir()
	require.NoError(t, sandboxtest.FillAppImage(folder))

	if fill != nil {
		fill(folder)
	}

	require.NoError(t, e.Import(t.Context(), folder, name, "", changes...))
}

// place creates a sandbox of an image, which is destroyed at the end of the test.
func place(t *testing.T, s rollout.Sandbox) *sandboxtest.Place {
	t.Helper()
	b := sandbox.New(open(t, docker.Options{}), sandbox.Options{Defaults: driver.Spec{
		MemoryMiB: 512,
		HomeMiB:   64,
		TmpMiB:    16,
		PIDs:      128,
	}})
	id := "place-" + rand.Text()

	t.Cleanup(func() { require.NoError(t, b.Destroy(context.Background(), id)) })
	_, err := b.Create(t.Context(), id, s, nil)
	require.NoError(t, err)

	return sandboxtest.Attach(t, b, id)
}

// volumesOf returns the number of the engine's volumes of a sandbox.
func volumesOf(t *testing.T, id string) int {
	t.Helper()
	all, err := engine(t).Client.VolumeList(
		t.Context(),
		client.VolumeListOptions{Filters: client.Filters{}.Add("label", "dev.rolloutd.sandbox="+id)},
	)
	require.NoError(t, err)

	return len(all.Items)
}

// The volumes that an image declares are in memory and have the image's content, owners and modes. A volume
// within the workdir is a part of it.
func TestVolumesOfAnImage(t *testing.T) {
	t.Parallel()
	importApp(t, "volumes:1", nil, `VOLUME ["/srv/data", "/app/cache", "/nothing"]`, "WORKDIR /app")
	p := place(t, rollout.Sandbox{Image: "volumes:1", Workdir: rollout.WorkdirOfImage})
	ran := p.Bash(`set -e; cat /srv/data/rows ~/workdir/cache/old; ls -A /nothing; cd ~/workdir; cat main
		echo y > y; cat /app/y; ls /app/cache`)
	require.Zero(t, ran.ExitCode, ran.Stderr)
	require.Equal(t, "rows\nold\noriginal\ny\nold\n", ran.Stdout)

	for _, script := range []string{"echo x > /srv/data/x", "echo x > /nothing/x"} {
		require.NotZero(t, p.Bash(script).ExitCode, script)
	}

	require.Empty(
		t,
		p.Bash(
			`awk '$5 ~ "^/(srv/data|app|app/cache|nothing|home/user/workdir|home/user/workdir/cache)$" && $0 !~ / - tmpfs /' /proc/self/mountinfo`,
		).Stdout,
	)
	require.Equal(t, 2, volumesOf(t, p.ID()))
	require.NoError(t, p.Backend.Destroy(t.Context(), p.ID()))
	require.Zero(t, volumesOf(t, p.ID()), "none is left")
}

// The content of an image's folder must fit into the sandbox's folder. A volume of an image may not overlap
// a folder of the sandbox.
func TestFoldersThatDoNotFit(t *testing.T) {
	t.Parallel()
	importApp(t, "large:1", func(folder string) {
		require.NoError(t, os.WriteFile(filepath.Join(folder, "app/large"), make([]byte, 20<<20), 0o600))
	})
	importApp(t, "greedy:1", nil, "VOLUME /opt")

	b := sandbox.New(open(t, docker.Options{}), sandbox.Options{})
	for want, s := range map[string]rollout.Sandbox{
		"disk_mib: is 16, and /app of the image has 20 MiB": {
			Image:     "large:1",
			Workdir:   "/app",
			DiskMiB:   16,
			MemoryMiB: 512,
		},
		"memory_mib: is 16, and the folders of the image": {
			Image:     "large:1",
			Workdir:   "/app",
			DiskMiB:   64,
			MemoryMiB: 16,
		},
		`image: declares the volume "/opt", which overlaps a f`: {Image: "greedy:1"},
	} {
		_, err := b.Create(t.Context(), "unfit", s, nil)
		require.Equal(t, fault.Invalid, fault.KindOf(err), "%v", err)
		require.ErrorContains(t, err, want)
	}

	require.Empty(t, containersOf(t, "unfit"))
	require.Zero(t, volumesOf(t, "unfit"))
}
