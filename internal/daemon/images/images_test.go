package images_test

import (
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/config"
	"github.com/rolloutd/rolloutd/internal/daemon/images"
	"github.com/rolloutd/rolloutd/internal/fault"
)

// serve starts a registry with an image and counts the manifests that it is asked for.
func serve(t *testing.T) (host string, manifests *atomic.Int32) {
	t.Helper()

	manifests = &atomic.Int32{}
	h := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/manifests/") {
			manifests.Add(1)
		}

		h.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	host = strings.TrimPrefix(s.URL, "http://")
	img, err := mutate.ConfigFile(empty.Image, &v1.ConfigFile{
		OS:           "linux",
		Architecture: runtime.GOARCH,
		RootFS:       v1.RootFS{Type: "layers"},
	})
	require.NoError(t, err)
	ref, err := name.ParseReference(host + "/team/app:1")
	require.NoError(t, err)
	require.NoError(t, remote.Write(ref, img))

	return host, manifests
}

func configOf(t *testing.T, registries ...string) config.Config {
	t.Helper()

	c := config.Defaults()
	c.Data, c.Sandbox.Images.Registries = t.TempDir(), registries

	return c
}

func open(t *testing.T, c config.Config) *images.Host {
	t.Helper()

	store, err := images.Open(c, slog.New(slog.DiscardHandler))
	require.NoError(t, err)

	return images.New(store, c.Sandbox.Images.Registries, nil)
}

// Sandboxes that need a missing image at the same time pull it once.
func TestPulledOnce(t *testing.T) {
	t.Parallel()
	host, manifests := serve(t)
	c := configOf(t, host)
	h := open(t, c)

	var all sync.WaitGroup

	errs := make([]error, 20)
	for n := range errs {
		all.Go(func() {
			use, err := h.Use(t.Context(), host+"/team/app:1")
			if errs[n] = err; err == nil {
				errs[n] = use.Lock.Close()
			}
		})
	}

	all.Wait()

	for _, err := range errs {
		require.NoError(t, err)
	}

	require.EqualValues(t, 1, manifests.Load())
}

// An image that found no room is not pulled again at once, for none of the rollouts that wait for that room.
func TestNoRoomIsRemembered(t *testing.T) {
	t.Parallel()
	host, manifests := serve(t)
	c := configOf(t, host)
	h := open(t, c)
	temp := filepath.Join(c.ImagesDir(), "tmp")
	require.NoError(t, os.Remove(temp))

	for range 2 {
		_, err := h.Use(t.Context(), host+"/team/app:1")
		require.Equal(t, fault.Exhausted, fault.KindOf(err), "%v", err)
		require.NoError(t, os.MkdirAll(temp, 0o700))
	}

	require.Zero(t, manifests.Load())
}

// An image of a task is pulled only from the operator's registries.
func TestRegistriesOfTasks(t *testing.T) {
	t.Parallel()
	host, manifests := serve(t)
	c := configOf(t, "docker.io")
	quiet := slog.New(slog.DiscardHandler)
	_, err := open(t, c).Use(t.Context(), host+"/team/app:1")
	require.ErrorContains(t, err, "tasks may not pull from "+host)
	require.Equal(t, fault.Invalid, fault.KindOf(err))
	require.Equal(t, fault.Invalid, fault.KindOf(images.NewChecker(c, quiet, true).Check(host+"/team/app:1")))
	require.NoError(t, images.NewChecker(c, quiet, false).Check(host+"/team/app:1"), "a worker of another host may have it")
	require.ErrorContains(t, images.NewChecker(c, quiet, true).Check("localhost/harbor-1f"), "rolloutd image build TASK/environment localhost/harbor-1f")
	require.Zero(t, manifests.Load())
}

// An image that its registry does not have is refused at submit. If the registry does not answer, the worker decides.
// A registry is asked once for the rollouts of a batch.
func TestCheck(t *testing.T) {
	t.Parallel()
	host, manifests := serve(t)

	const gone = "127.0.0.1:1"

	c := configOf(t, host, gone)
	quiet := slog.New(slog.DiscardHandler)
	checker := images.NewChecker(c, quiet, true)

	for range 3 {
		require.NoError(t, checker.Check(host+"/team/app:1"))
		require.Equal(t, fault.Invalid, fault.KindOf(checker.Check(host+"/team/none:1")))
		require.NoError(t, checker.Check(gone+"/team/app:1"))
	}

	require.EqualValues(t, 2, manifests.Load(), "one for each image")
}

// Images of the configured tasks that the host cannot have are found before a rollout needs them. Nothing
// is pulled or created.
func TestUnavailable(t *testing.T) {
	t.Parallel()
	host, _ := serve(t)
	silent := httptest.NewServer(http.NotFoundHandler())
	silent.Close()
	away := strings.TrimPrefix(silent.URL, "http://")
	c := configOf(t, host, away)
	c.Data = filepath.Join(t.TempDir(), "data")
	tasks := filepath.Join(t.TempDir(), "tasks.jsonl")

	lines := ""
	for i, sandbox := range []string{
		`{"image":"` + host + `/team/app:1"}`, `{"image":"` + host + `/team/none:1"}`, `{"image":"` + away + `/app:1"}`, `{"image":"elsewhere.test/app:1"}`,
		`{"image":"` + away + `/app:2","backend":"docker"}`, `{}`,
	} {
		lines += fmt.Sprintf(`{"id":"t%d","instruction":"x","sandbox":%s}`+"\n", i, sandbox)
	}

	require.NoError(t, os.WriteFile(tasks, []byte(lines), 0o600))
	c.TaskSets = map[string]config.TaskSet{"all": {Path: tasks}}
	looked, missing := images.Unavailable(t.Context(), c, slog.New(slog.DiscardHandler))
	require.Equal(t, 4, looked)

	why := map[string]string{}
	for _, m := range missing {
		why[m.Image] = m.Why.Error()
	}

	require.Len(t, why, 3)
	require.Contains(t, why[host+"/team/none:1"], "the registry does not have it")
	require.Contains(t, why[away+"/app:1"], "the registry does not answer")
	require.Contains(t, why["elsewhere.test/app:1"], "tasks may not pull from")
	require.NoDirExists(t, c.Data)
}
