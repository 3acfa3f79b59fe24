package image_test

import (
	"archive/tar"
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/image"
)

// entry is a member of a layer's tar file.
type entry struct {
	tar.Header
	text string
}

func file(path, text string) entry {
	return entry{tar.Header{Typeflag: tar.TypeReg, Name: path, Mode: 0o644}, text}
}

func dir(path string) entry {
	return entry{tar.Header{Typeflag: tar.TypeDir, Name: path, Mode: 0o755}, ""}
}

func symlink(path, to string) entry {
	return entry{tar.Header{Typeflag: tar.TypeSymlink, Name: path, Linkname: to}, ""}
}

func hardlink(path, to string) entry {
	return entry{tar.Header{Typeflag: tar.TypeLink, Name: path, Linkname: to}, ""}
}

func tarOf(t testing.TB, entries ...entry) []byte {
	t.Helper()

	var out bytes.Buffer

	w := tar.NewWriter(&out)

	for _, e := range entries {
		e.Size = int64(len(e.text))
		if len(e.PAXRecords) > 0 {
			e.Format = tar.FormatPAX
		}

		require.NoError(t, w.WriteHeader(&e.Header))
		_, err := w.Write([]byte(e.text))
		require.NoError(t, err)
	}

	require.NoError(t, w.Close())

	return out.Bytes()
}

func layerOf(t testing.TB, data []byte) v1.Layer {
	t.Helper()

	l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil })
	require.NoError(t, err)

	return l
}

// imageOf builds an image for this machine with a layer for each list of entries.
func imageOf(t testing.TB, layers ...[]entry) v1.Image {
	t.Helper()
	return imageFor(t, runtime.GOARCH, layers...)
}

func imageFor(t testing.TB, arch string, layers ...[]entry) v1.Image {
	t.Helper()

	img, err := mutate.ConfigFile(empty.Image, &v1.ConfigFile{
		OS: "linux", Architecture: arch, RootFS: v1.RootFS{Type: "layers"},
		Config: v1.Config{Env: []string{"PATH=/bin", "LEVEL=1"}, User: "app", WorkingDir: "/app"},
	})
	require.NoError(t, err)

	for _, entries := range layers {
		img, err = mutate.AppendLayers(img, layerOf(t, tarOf(t, entries...)))
		require.NoError(t, err)
	}

	return img
}

// serve starts a registry, behind wrap, and returns its host and port.
func serve(t testing.TB, wrap func(http.Handler) http.Handler) string {
	t.Helper()

	h := registry.New(registry.Logger(quiet()))
	if wrap != nil {
		h = wrap(h)
	}

	s := httptest.NewServer(h)
	t.Cleanup(s.Close)

	return strings.TrimPrefix(s.URL, "http://")
}

func push(t testing.TB, host, repository string, img v1.Image) string {
	t.Helper()

	ref, err := name.ParseReference(host + "/" + repository)
	require.NoError(t, err)
	require.NoError(t, remote.Write(ref, img))

	return ref.String()
}

func open(t testing.TB, o image.Options) *image.Store {
	t.Helper()

	if o.Dir == "" {
		o.Dir = filepath.Join(t.TempDir(), "images")
	}

	s, err := image.Open(o)
	require.NoError(t, err)

	return s
}

// archive writes the image in the format of docker save.
func archive(t testing.TB, img v1.Image) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "image.tar")
	ref, err := name.NewTag("example/app:1")
	require.NoError(t, err)
	require.NoError(t, tarball.WriteToFile(path, ref, img))

	return path
}

func read(t testing.TB, use *image.Use, layer int, path string) string {
	t.Helper()

	data, err := os.ReadFile(filepath.Join(use.Layers[layer], path))
	require.NoError(t, err)

	return string(data)
}
