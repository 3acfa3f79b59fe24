package dockerfile_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/dockerfile"
	"github.com/rolloutd/rolloutd/internal/driver/local"
	"github.com/rolloutd/rolloutd/internal/image"
	"github.com/rolloutd/rolloutd/internal/image/imagetest"
	"github.com/rolloutd/rolloutd/internal/sandbox/sandboxtest"
)

// sandboxdPath is the binary in whose sandboxes commands run; basePath the root file system of the image base.
var sandboxdPath, basePath string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "dockerfile")
	if err == nil {
		defer os.RemoveAll(dir)

		sandboxdPath, err = sandboxtest.BuildSandboxd(context.Background(), dir)
	}

	if err == nil {
		basePath = filepath.Join(dir, "base")
		err = fillBase(basePath)
	}

	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}

	return m.Run()
}

// fillBase makes a root file system with this machine's shell and tools, users, and links in place of folders.
func fillBase(dir string) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}

	if err := imagetest.Fill(dir, append(imagetest.Programs(), "chown", "printenv")); err != nil {
		return err
	}

	for path, text := range map[string]string{
		"etc/passwd":   "root:x:0:0:root:/root:/bin/sh\napp:x:1500:100:App:/srv/app:/bin/sh\n",
		"etc/group":    "root:x:0:\nusers:x:100:app\n",
		"srv/old":      "old",
		"srv/data/one": "1",
	} {
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(path)), 0o755); err != nil {
			return err
		}

		if err := os.WriteFile(filepath.Join(dir, path), []byte(text), 0o644); err != nil {
			return err
		}
	}

	if err := os.Mkdir(filepath.Join(dir, "tmp"), 0o777); err != nil {
		return err
	}

	if err := os.Chmod(filepath.Join(dir, "tmp"), 0o777|os.ModeSticky); err != nil {
		return err
	}

	return os.Symlink("/srv", filepath.Join(dir, "data"))
}

// bench has a store with the image base, and builds images of Dockerfiles.
type bench struct {
	t       *testing.T
	store   *image.Store
	builder dockerfile.Builder
	out     bytes.Buffer
}

func newBench(t *testing.T) *bench {
	t.Helper()

	if os.Geteuid() != 0 {
		t.Skip("RUN needs root")
	}

	store, err := image.Open(image.Options{Dir: filepath.Join(t.TempDir(), "images")})
	require.NoError(t, err)
	_, err = store.Import(t.Context(), basePath, "base:1")
	require.NoError(t, err)

	driver, err := local.New(local.Options{Dir: t.TempDir(), SandboxdPath: sandboxdPath})
	require.NoError(t, err)

	return &bench{t: t, store: store, builder: dockerfile.Builder{
		Images: store, Runner: driver, CPU: 2, MemoryMiB: 256, PIDs: 64,
	}}
}

// folder writes a build context.
func (b *bench) folder(files map[string]string) string {
	b.t.Helper()

	dir := b.t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		require.NoError(b.t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(b.t, os.WriteFile(path, []byte(text), 0o644))
	}

	return dir
}

func (b *bench) build(folder string) (image.Image, error) {
	b.t.Helper()
	b.out.Reset()

	return b.builder.Build(b.t.Context(), dockerfile.Job{Folder: folder, Name: "built:1", Output: &b.out})
}

// sh runs a command in the built image and returns its output.
func (b *bench) sh(command string) string {
	b.t.Helper()

	use, err := b.store.Use(b.t.Context(), "built:1")
	require.NoError(b.t, err)

	defer use.Lock.Close()

	var out bytes.Buffer

	_, changes, err := b.builder.Runner.RunStep(b.t.Context(), local.Step{
		Layers: use.Layers, Argv: []string{"/bin/sh", "-c", command}, Path: "/bin", Dir: "/", CPU: 2, MemoryMiB: 256,
		PIDs: 64, DiskMiB: 64, Output: &out, Env: append([]string{"PATH=/usr/bin:/bin"}, use.Image.Env...),
	})
	require.NoError(b.t, err)
	require.NoError(b.t, changes.Close())

	return out.String()
}
