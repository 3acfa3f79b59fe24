package toolservice_test

import (
	"archive/tar"
	"bytes"
	"context"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/episode"
	"github.com/rolloutd/rolloutd/internal/episode/toolservice"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// workdir has the entries of a workdir by their names: a folder is "/", "-> x" is a link to x, "= x" a
// further name of x, and any other text is a file. Its tars are those of sandboxd.
type workdir map[string]string

func (w workdir) GetTar(_ context.Context, at string) (io.ReadCloser, error) {
	name := strings.Trim(strings.TrimPrefix(at, rollout.Workdir), "/")

	for parent := path.Dir(name); parent != "."; parent = path.Dir(parent) {
		if w[parent] != "/" {
			return nil, fault.New(fault.Invalid, "tar %q: not a directory", at)
		}
	}

	content, ok := w[name]

	switch {
	case name == "":
	case !ok:
		return nil, fault.New(fault.NotFound, "tar %q: no such file or directory", at)
	case strings.HasPrefix(content, "-> "):
		return nil, fault.New(fault.Invalid, "tar %q: neither a directory nor a regular file", at)
	case content != "/":
		return pack(map[string]string{path.Base(name): w.text(name)}, "")
	}

	below := map[string]string{}

	for other, content := range w {
		if name == "" {
			below[other] = content
		} else if rest, ok := strings.CutPrefix(other, name+"/"); ok {
			below[rest] = content
		}
	}

	return pack(below, name+"/")
}

// text is the content of a file.
func (w workdir) text(name string) string {
	if first, ok := strings.CutPrefix(w[name], "= "); ok {
		return w[first]
	}

	return w[name]
}

// pack packs the entries of a folder, whose name is a prefix of what further names of files lead to.
func pack(entries map[string]string, folder string) (io.ReadCloser, error) {
	var out bytes.Buffer

	archive := tar.NewWriter(&out)

	for _, name := range slices.Sorted(maps.Keys(entries)) {
		h, content := &tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644}, entries[name]

		switch {
		case content == "/":
			h.Name, h.Typeflag, content = name+"/", tar.TypeDir, ""
		case strings.HasPrefix(content, "-> "):
			h.Linkname, h.Typeflag, content = content[3:], tar.TypeSymlink, ""
		case strings.HasPrefix(content, "= "):
			h.Linkname, h.Typeflag, content = strings.TrimPrefix(content[2:], folder), tar.TypeLink, ""
		}

		h.Size = int64(len(content))
		if err := archive.WriteHeader(h); err != nil {
			return nil, err
		}

		if _, err := io.WriteString(archive, content); err != nil {
			return nil, err
		}
	}

	return io.NopCloser(&out), archive.Close()
}

// clientOf returns a client of a tool service whose sandbox has these files.
func clientOf(t *testing.T, files toolservice.Files) *episode.Client {
	t.Helper()

	table, _, _ := open(t, t.TempDir(), toolservice.Options{Tools: newCounted(), Files: files})
	srv := httptest.NewServer(table.Handler("t", slog.New(slog.DiscardHandler)))
	t.Cleanup(srv.Close)

	return episode.NewClient(srv.URL, "t", http.DefaultClient)
}

// shown has the entries of a tar, written as those of workdir.
func shown(t *testing.T, r io.ReadCloser) map[string]string {
	t.Helper()

	defer r.Close()

	out := map[string]string{}

	for archive := tar.NewReader(r); ; {
		h, err := archive.Next()
		if err == io.EOF { //nolint:errorlint // archive/tar returns it as it is
			return out
		}

		require.NoError(t, err)

		content, err := io.ReadAll(archive)
		require.NoError(t, err)

		switch h.Typeflag {
		case tar.TypeSymlink:
			content = []byte("-> " + h.Linkname)
		case tar.TypeLink:
			content = []byte("= " + h.Linkname)
		}

		out[h.Name] = string(content)
	}
}

func TestTar(t *testing.T) {
	t.Parallel()

	c := clientOf(t, workdir{
		"d": "/", "d/one": "one", "d/two": "= d/one", "d/up": "-> ../top",
		"top": "top", "near": "-> d", "deep": "-> near/one", "absolute": "-> /home/user/workdir/d/one",
		"out": "-> /etc/passwd", "sly": "-> d/../../../../etc", "ring": "-> ring", "lost": "-> nowhere",
		"same": "/", "same/same": "not a file", "self": "-> .",
	})
	d := map[string]string{"d/": "", "d/one": "one", "d/two": "= d/one", "d/up": "-> ../top"}
	same := map[string]string{"same/": "", "same/same": "not a file"}
	all := map[string]string{
		"./": "", "top": "top", "near": "-> d", "deep": "-> near/one", "absolute": "-> /home/user/workdir/d/one",
		"out": "-> /etc/passwd", "sly": "-> d/../../../../etc", "ring": "-> ring", "lost": "-> nowhere", "self": "-> .",
	}
	maps.Copy(all, d)
	maps.Copy(all, same)

	for at, want := range map[string]map[string]string{
		"d":        d,
		"near":     d,
		"same":     same,
		"":         all,
		"self":     all,
		"near/one": {"d/one": "one"},
		"deep":     {"d/one": "one"},
		"absolute": {"d/one": "one"},
		"d/two":    {"d/two": "one"},
		"top":      {"top": "top"},
	} {
		stream, err := c.Tar(t.Context(), "r.1", at)
		require.NoError(t, err, at)
		require.Equal(t, want, shown(t, stream), at)
	}

	for at, want := range map[string]fault.Kind{
		"out": fault.Unauthorized, "sly/passwd": fault.Unauthorized, "ring": fault.NotFound, "lost": fault.NotFound,
		"none": fault.NotFound, "top/none": fault.NotFound,
	} {
		_, err := c.Tar(t.Context(), "r.1", at)
		require.Equal(t, want, fault.KindOf(err), "%s: %v", at, err)
		_, _, err = c.List(t.Context(), "r.1", at, true, 0)
		require.Equal(t, want, fault.KindOf(err), "%s: %v", at, err)
	}
}

func TestList(t *testing.T) {
	t.Parallel()

	c := clientOf(t, workdir{
		"d": "/", "d/one": "one", "d/two": "= d/one", "d/sub": "/", "d/sub/x": "x", "link": "-> d/one", "folder": "-> d",
		"out": "-> /etc",
	})
	names := func(at string, recursive bool, limit int) (out []string, more bool) {
		entries, more, err := c.List(t.Context(), "r.1", at, recursive, limit)
		require.NoError(t, err)

		for _, e := range entries {
			name := e.Path
			if e.IsDir {
				name += "/"
			}

			out = append(out, name)

			require.Equal(t, map[string]int64{"one": 3, "two": 3, "x": 1}[path.Base(e.Path)], e.Size, e.Path)
		}

		return out, more
	}

	got, more := names(".", false, 0)
	require.Equal(t, []string{"d/", "d/", "d/one"}, got, "d, folder, link")
	require.False(t, more)

	got, _ = names("d", false, 0)
	require.Equal(t, []string{"d/one", "d/sub/", "d/two"}, got)
	got, _ = names("folder/sub", true, 0)
	require.Equal(t, []string{"d/sub/x"}, got)
	got, _ = names("link", true, 0)
	require.Equal(t, []string{"d/one"}, got)
	got, more = names("d", true, 3)
	require.Equal(t, []string{"d/one", "d/sub/", "d/sub/x"}, got)
	require.True(t, more)
	got, more = names("d", true, 4)
	require.Len(t, got, 4)
	require.False(t, more, "a list that fits exactly is whole")
}
