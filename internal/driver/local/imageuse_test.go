package local_test

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/driver/local"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/image"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandbox"
	"github.com/rolloutd/rolloutd/internal/sandbox/sandboxtest"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

// A request for something that the image does not have is refused. So is a workdir that leads to a folder of the
// system.
func TestRefusedImageUse(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	makeImage(t, folder)
	require.NoError(t, os.Symlink("/etc", filepath.Join(folder, "app")))

	b := sandbox.New(open(t, local.Options{Images: images(t, folder), BridgeDir: t.TempDir()}), sandbox.Options{})
	for _, s := range []rollout.Sandbox{
		{User: "root"}, {Workdir: "/app"}, {ImageEnv: true}, {GradePaths: []string{"/app"}},
		{
			Image:   "small",
			Workdir: "/usr/bin",
		}, {Image: "small", GradePaths: []string{"/etc"}}, {Image: "small", Workdir: "/home/user/tests"},
	} {
		_, err := b.Create(t.Context(), "x", s, nil)
		require.Equal(t, fault.Invalid, fault.KindOf(err), "%+v: %v", s, err)
	}

	_, err := b.Create(t.Context(), "x", rollout.Sandbox{Image: "small", Workdir: "/app"}, nil)
	require.ErrorContains(t, err, "files do not go to the verifier; got /etc")
	require.Equal(t, fault.Invalid, fault.KindOf(err))
	_, err = b.Create(t.Context(), "x", rollout.Sandbox{Image: "small", GradePaths: []string{"/app/passwd/x"}}, nil)
	require.ErrorContains(t, err, "grade_paths: /app is a link in the image")
	require.ErrorContains(t, b.Prepare(t.Context(), rollout.Sandbox{
		Image:   "small",
		Workdir: "/app",
	}), "files do not go to the verifier; got /etc")
}

// Processes start with the environment of the image. The verifier's PATH has no folders that the agent can write.
func TestEnvironmentOfAnImage(t *testing.T) {
	t.Parallel()
	d := imageWithEnv(
		t,
		"PATH=/app/venv/bin:/usr/local/bin:/usr/bin",
		"LEVEL=1",
		"PYTHONPATH=/app/lib",
		"HOME=/nowhere",
	)
	b := sandbox.New(d, sandbox.Options{})
	_, err := b.Create(t.Context(), "env", rollout.Sandbox{
		Image:    "env",
		Workdir:  rollout.WorkdirOfImage,
		ImageEnv: true,
	}, nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, b.Destroy(context.Background(), "env")) })
	p := sandboxtest.Attach(t, b, "env")
	show := `cd /home/user/workdir; echo $PATH; echo $LEVEL; echo $PYTHONPATH; echo $HOME; cat main; pwd`
	require.Equal(
		t,
		"/app/venv/bin:/usr/local/bin:/usr/bin:/opt/rolloutd/bin\n1\n/app/lib\n/home/user\noriginal\n/home/user/workdir\n",
		p.Bash(show).Stdout,
	)
	v := p.User(wire.VerifierUser)
	require.Equal(
		t,
		"/usr/local/bin:/usr/bin:/opt/rolloutd/bin\n1\n\n/verifier/home\noriginal\n/home/user/workdir\n",
		v.Bash(show).Stdout,
	)

	ran := v.Bash("cd /home/user/workdir; run-as-agent bash -c 'echo $PATH; echo $LEVEL; echo $PYTHONPATH; echo $HOME'")
	if os.Geteuid() == 0 {
		require.Equal(
			t,
			"/app/venv/bin:/usr/local/bin:/usr/bin:/opt/rolloutd/bin\n1\n/app/lib\n/home/user\n",
			ran.Stdout,
			ran.Stderr,
		)
	}
}

// imageWithEnv returns a driver with the image "env", whose workdir is /app.
func imageWithEnv(t *testing.T, env ...string) *local.Driver {
	t.Helper()
	folder := t.TempDir()
	makeImage(t, folder)
	require.NoError(t, os.Mkdir(filepath.Join(folder, "app"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "app/main"), []byte("original\n"), 0o600))
	require.NoError(t, os.Chmod(filepath.Join(folder, "app/main"), 0o644))

	return open(t, local.Options{
		Images:    envImage(t, folder, v1.Config{Env: env, WorkingDir: "/app"}),
		BridgeDir: t.TempDir(),
	})
}

// envImage returns a store with the image "env", which has the files of the folder and the given configuration.
func envImage(t *testing.T, folder string, config v1.Config) *image.Store {
	t.Helper()

	layer, err := layerOf(folder)
	require.NoError(t, err)
	img, err := mutate.ConfigFile(empty.Image, &v1.ConfigFile{
		OS: "linux", Architecture: runtime.GOARCH, RootFS: v1.RootFS{Type: "layers"}, Config: config,
	})
	require.NoError(t, err)
	img, err = mutate.AppendLayers(img, layer)
	require.NoError(t, err)
	ref, err := name.NewTag("example/env:1")
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "env.tar")
	require.NoError(t, tarball.WriteToFile(path, ref, img))
	s, err := image.Open(image.Options{Dir: filepath.Join(t.TempDir(), "images")})
	require.NoError(t, err)
	_, err = s.Import(t.Context(), path, "env")
	require.NoError(t, err)

	return s
}
