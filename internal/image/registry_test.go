package image_test

import (
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/image"
)

// A registry that stops sending, before its response or within a layer, is unavailable after the timeout.
func TestSilentRegistry(t *testing.T) {
	t.Parallel()

	for _, part := range []string{"/manifests/", "/blobs/"} {
		t.Run(strings.Trim(part, "/"), func(t *testing.T) {
			t.Parallel()

			stopped := make(chan struct{})

			var silent atomic.Bool

			host := serve(t, func(h http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if !silent.Load() || r.Method != http.MethodGet || !strings.Contains(r.URL.Path, part) {
						h.ServeHTTP(w, r)
						return
					}

					w.WriteHeader(http.StatusOK)
					_ = http.NewResponseController(w).Flush()

					<-stopped
				})
			})
			// before the server closes, which waits for its requests
			t.Cleanup(func() { close(stopped) })
			name := push(t, host, "app:1", imageOf(t, []entry{file("a", "1")}))

			silent.Store(true)

			s := open(t, image.Options{Registries: image.Registries{Stall: 50 * time.Millisecond}})
			err := pull(t, s, name)
			require.Equal(t, fault.Unavailable, fault.KindOf(err), "%v", err)
			nothingIn(t, s)
		})
	}
}

// A registry that never answers is called once, because each retry would wait as long again.
func TestRegistryThatNeverAnswers(t *testing.T) {
	t.Parallel()

	stopped := make(chan struct{})

	var (
		deaf  atomic.Bool
		asked atomic.Int32
	)

	host := serve(t, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !deaf.Load() {
				h.ServeHTTP(w, r)
				return
			}

			asked.Add(1)
			<-stopped
		})
	})
	t.Cleanup(func() { close(stopped) })
	name := push(t, host, "app:1", imageOf(t, []entry{file("a", "1")}))

	deaf.Store(true)

	s := open(t, image.Options{Registries: image.Registries{Stall: 50 * time.Millisecond}})
	err := pull(t, s, name)
	require.Equal(t, fault.Unavailable, fault.KindOf(err), "%v", err)
	require.ErrorContains(t, err, "the registry sent nothing for 50ms")
	require.LessOrEqual(t, asked.Load(), int32(1))
}

// A pull from a registry that is too slow fails at the time limit of a pull.
func TestSlowRegistry(t *testing.T) {
	t.Parallel()

	stopped := make(chan struct{})

	var slow atomic.Bool

	img := imageOf(t, []entry{file("a", "1")})
	config, err := img.ConfigName()
	require.NoError(t, err)
	host := serve(t, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !slow.Load() || !strings.Contains(r.URL.Path, "/blobs/") ||
				strings.HasSuffix(r.URL.Path, config.String()) {
				h.ServeHTTP(w, r)
				return
			}

			whole := httptest.NewRecorder()
			h.ServeHTTP(whole, r)
			w.WriteHeader(whole.Code)

			for _, b := range whole.Body.Bytes() {
				_, err := w.Write([]byte{b})
				if err != nil || http.NewResponseController(w).Flush() != nil {
					return
				}

				select {
				case <-stopped:
					return
				case <-time.After(time.Minute):
				}
			}
		})
	})
	t.Cleanup(func() { close(stopped) })
	name := push(t, host, "app:1", img)

	slow.Store(true)

	s := open(t, image.Options{Registries: image.Registries{Pull: time.Second}})
	err = pull(t, s, name)
	require.Equal(t, fault.Unavailable, fault.KindOf(err), "%v", err)
	require.ErrorContains(t, err, "was not pulled within 1s")
	nothingIn(t, s)
}

// An invalid manifest or layer is refused.
func TestGarbage(t *testing.T) {
	t.Parallel()

	for name, c := range map[string]struct{ part, body, want string }{
		"manifest":       {"/manifests/", "<html>", ""},
		"empty manifest": {"/manifests/", "", ""},
		"huge manifest":  {"/manifests/", strings.Repeat(" ", 9<<20), ""},
		"layer":          {"/blobs/", "<html>", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			var broken atomic.Bool

			host := serve(t, func(h http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if broken.Load() && r.Method == http.MethodGet && strings.Contains(r.URL.Path, c.part) {
						w.Header().Set("Content-Type", "application/vnd.oci.image.manifest.v1+json")
						_, _ = w.Write([]byte(c.body))

						return
					}

					h.ServeHTTP(w, r)
				})
			})
			ref := push(t, host, "app:1", imageOf(t, []entry{file("a", "1")}))

			broken.Store(true)

			s := open(t, image.Options{})
			err := pull(t, s, ref)
			require.Error(t, err)
			require.Equal(t, fault.Invalid, fault.KindOf(err), "%v", err)
			nothingIn(t, s)
		})
	}
}

// A busy registry is unavailable, because a retry may succeed.
func TestBusyRegistry(t *testing.T) {
	t.Parallel()
	host := serve(t, func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "/v2/") {
				return
			}

			w.WriteHeader(http.StatusTooManyRequests)
		})
	})
	require.Equal(t, fault.Unavailable, fault.KindOf(pull(t, open(t, image.Options{}), host+"/app:1")))
}

// A mirror is tried before the registry. If the mirror does not have the image, the registry is used.
func TestMirrors(t *testing.T) {
	t.Parallel()
	mirror, origin := serve(t, nil), serve(t, nil)
	push(t, mirror, "library/here:1", imageOf(t, []entry{file("a", "mirror")}))
	push(t, origin, "library/here:1", imageOf(t, []entry{file("a", "origin")}))
	push(t, origin, "library/there:1", imageOf(t, []entry{file("a", "origin")}))

	s := open(t, image.Options{Registries: image.Registries{Mirrors: map[string][]string{origin: {mirror}}}})
	for name, want := range map[string]string{"here": "mirror", "there": "origin"} {
		ref := origin + "/library/" + name + ":1"
		_, err := s.Pull(t.Context(), ref)
		require.NoError(t, err)
		use, err := s.Use(t.Context(), ref)
		require.NoError(t, err)
		require.Equal(t, want, read(t, use, 0, "a"))
		require.NoError(t, use.Lock.Close())
	}
}

// The credentials come from the Docker configuration.
func TestCredentials(t *testing.T) {
	host := serve(t, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			user, password, _ := r.BasicAuth()
			if r.Method == http.MethodGet && (user != "ann" || password != "secret") {
				w.Header().Set("WWW-Authenticate", `Basic realm="registry"`)
				w.WriteHeader(http.StatusUnauthorized)

				return
			}

			h.ServeHTTP(w, r)
		})
	})
	config := t.TempDir()
	t.Setenv("DOCKER_CONFIG", config)
	s := open(t, image.Options{})
	require.ErrorContains(t, pull(t, s, host+"/app:1"), "docker login")

	auth := base64.StdEncoding.EncodeToString([]byte("ann:secret"))
	text := `{"auths":{"` + host + `":{"auth":"` + auth + `"}}}`
	require.NoError(t, os.WriteFile(filepath.Join(config, "config.json"), []byte(text), 0o600))
	pushAs(t, host, "app:1", imageOf(t, []entry{file("a", "1")}))
	require.NoError(t, pull(t, s, host+"/app:1"))
}
