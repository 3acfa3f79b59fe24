package image_test

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/image"
)

// inconsistentImage is an image whose configuration does not match its layers.
type inconsistentImage struct {
	v1.Image
	config *v1.ConfigFile
}

func (l inconsistentImage) RawConfigFile() ([]byte, error) { return json.Marshal(l.config) }

func (l inconsistentImage) ConfigFile() (*v1.ConfigFile, error) { return l.config, nil }

func (l inconsistentImage) ConfigName() (v1.Hash, error) {
	data, err := l.RawConfigFile()
	if err != nil {
		return v1.Hash{}, err
	}

	h, _, err := v1.SHA256(bytes.NewReader(data))

	return h, err
}

func (l inconsistentImage) Manifest() (*v1.Manifest, error) {
	m, err := l.Image.Manifest()
	if err != nil {
		return nil, err
	}

	data, err := l.RawConfigFile()
	if err != nil {
		return nil, err
	}

	m = m.DeepCopy()
	m.Config.Size = int64(len(data))
	m.Config.Digest, err = l.ConfigName()

	return m, err
}

func (l inconsistentImage) RawManifest() ([]byte, error) {
	m, err := l.Manifest()
	if err != nil {
		return nil, err
	}

	return json.Marshal(m)
}

func (l inconsistentImage) Digest() (v1.Hash, error) {
	data, err := l.RawManifest()
	if err != nil {
		return v1.Hash{}, err
	}

	h, _, err := v1.SHA256(bytes.NewReader(data))

	return h, err
}

func pushAs(t *testing.T, host, repository string, img v1.Image) {
	t.Helper()

	ref, err := name.ParseReference(host + "/" + repository)
	require.NoError(t, err)
	require.NoError(t, remote.Write(ref, img, remote.WithAuthFromKeychain(authn.DefaultKeychain)))
}

// importOf imports an image with these layers.
func importOf(t *testing.T, s *image.Store, layers ...[]entry) (*image.Use, error) {
	t.Helper()

	if _, err := s.Import(t.Context(), archive(t, imageOf(t, layers...)), "app"); err != nil {
		return nil, err
	}

	use, err := s.Use(t.Context(), "app")
	require.NoError(t, err)
	t.Cleanup(func() { _ = use.Lock.Close() })

	return use, nil
}

// Modes, times, links, whiteouts and attributes are stored in the form that overlayfs reads.
func TestUnpack(t *testing.T) {
	t.Parallel()

	tool := file("bin/tool", "#!")
	tool.Mode, tool.ModTime = 0o4755, time.Unix(1_000_000, 0)
	tool.PAXRecords = map[string]string{
		"SCHILY.xattr.security.capability":     "\x01\x00\x00\x02\x00\x20\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00",
		"SCHILY.xattr.user.note":               "kept",
		"SCHILY.xattr.trusted.overlay.opaque":  "y",
		"SCHILY.xattr.user.overlay.redirect":   "/etc",
		"SCHILY.xattr.security.selinux":        "x",
		"SCHILY.xattr.system.posix_acl_access": "x",
	}
	sealed := dir("sealed")
	sealed.Mode, sealed.ModTime = 0o555, time.Unix(2_000_000, 0)
	device := entry{tar.Header{Typeflag: tar.TypeChar, Name: "dev/sda", Devmajor: 8}, ""}
	fifo := entry{tar.Header{Typeflag: tar.TypeFifo, Name: "pipe"}, ""}
	use, err := importOf(t, open(t, image.Options{}), []entry{
		dir("bin"),
		tool,
		hardlink("bin/same", "bin/tool"),
		symlink("bin/link", "/etc/passwd"),
		sealed,
		file("sealed/inside", "x"),
		device,
		fifo,
		file("was/file", "1"),
		dir("was/file"),
		file("was/file/now", "2"),
	}, []entry{
		dir("bin"),
		file("bin/.wh.tool", ""),
		dir("sealed"),
		file("sealed/.wh..wh..opq", ""),
		file("new", "1"),
		file(".wh.new", ""),
	})
	require.NoError(t, err)

	low, high := use.Layers[0], use.Layers[1]
	st, err := os.Stat(filepath.Join(low, "bin/tool"))
	require.NoError(t, err)
	require.Equal(t, fs.ModeSetuid|0o755, st.Mode())
	require.Equal(t, int64(1_000_000), st.ModTime().Unix())

	same, err := os.Stat(filepath.Join(low, "bin/same"))
	require.NoError(t, err)
	require.True(t, os.SameFile(st, same))

	to, err := os.Readlink(filepath.Join(low, "bin/link"))
	require.NoError(t, err)
	require.Equal(t, "/etc/passwd", to)

	folder, err := os.Stat(filepath.Join(low, "sealed"))
	require.NoError(t, err)
	require.Equal(t, int64(2_000_000), folder.ModTime().Unix())
	require.NoFileExists(t, filepath.Join(low, "dev/sda"))
	require.NoFileExists(t, filepath.Join(low, "pipe"))
	require.Equal(t, "2", read(t, use, 0, "was/file/now"))
	require.Equal(t, "1", read(t, use, 1, "new"), "a whiteout hides layers below alone")

	hidden, err := os.Lstat(filepath.Join(high, "bin/tool"))
	require.NoError(t, err)
	require.Equal(t, fs.ModeDevice|fs.ModeCharDevice, hidden.Mode().Type())

	opaque, want := "user.overlay.opaque", []string{"user.note"}
	if os.Geteuid() == 0 {
		opaque, want = "trusted.overlay.opaque", []string{"security.capability", "user.note"}
	}

	require.Equal(t, want, attributes(t, filepath.Join(low, "bin/tool")))
	require.Equal(t, []string{opaque}, attributes(t, filepath.Join(high, "sealed")))
}

func attributes(t *testing.T, path string) []string {
	t.Helper()

	buf := make([]byte, 4096)
	n, err := unix.Listxattr(path, buf)
	require.NoError(t, err)

	return slices.Sorted(slices.Values(strings.Split(strings.TrimSuffix(string(buf[:n]), "\x00"), "\x00")))
}

// As root, files keep their owners within the ids that a sandbox has.
func TestOwners(t *testing.T) {
	t.Parallel()

	if os.Geteuid() != 0 {
		t.Skip("only root can give files away")
	}

	mine, far := file("mine", ""), file("far", "")
	mine.Uid, mine.Gid, far.Uid = 33, 34, 1_000_000
	use, err := importOf(t, open(t, image.Options{}), []entry{mine, far})
	require.NoError(t, err)

	var st unix.Stat_t
	require.NoError(t, unix.Stat(filepath.Join(use.Layers[0], "mine"), &st))
	require.EqualValues(t, [2]uint32{33, 34}, [2]uint32{st.Uid, st.Gid})
	require.NoError(t, unix.Stat(filepath.Join(use.Layers[0], "far"), &st))
	require.EqualValues(t, 65534, st.Uid)
}

// A layer that reaches outside of its folder or exceeds a limit is refused. It leaves no file inside or
// outside of the folder.
func TestHostileLayers(t *testing.T) {
	t.Parallel()

	var many []entry
	for n := range 30 {
		many = append(many, file("f"+strings.Repeat("x", n), ""))
	}

	big := file("big", strings.Repeat("0", 3000))
	heavy := file("heavy", "")

	heavy.PAXRecords = map[string]string{"SCHILY.xattr.user.a": strings.Repeat("v", 70_000)}
	for name, entries := range map[string][]entry{
		"parent":             {file("../out", "x")},
		"parent inside":      {file("a/../../out", "x")},
		"through a link":     {symlink("out", "OUT"), file("out/file", "x")},
		"through a far link": {symlink("out", "../../../../../../../../../tmp"), file("out/file", "x")},
		"file as folder":     {file("a", "x"), file("a/b", "x")},
		"hard link outside":  {hardlink("a", "../../../../etc/passwd")},
		"hard link absolute": {hardlink("a", "/etc/passwd")},
		"hard link by link":  {symlink("etc", "/etc"), hardlink("a", "etc/passwd")},
		"whiteout outside":   {symlink("out", "OUT"), file("out/.wh.keep", "")},
		"whiteout of parent": {file("a/.wh...", "")},
		"opaque root":        {file(".wh..wh..opq", "")},
		"deep":               {file(strings.Repeat("d/", 40)+"f", "x")},
		"many":               many,
		"big":                {big},
		"attributes":         {heavy},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			outside := t.TempDir()
			require.NoError(t, os.WriteFile(filepath.Join(outside, "keep"), []byte("k"), 0o600))

			for n := range entries {
				entries[n].Linkname = strings.Replace(entries[n].Linkname, "OUT", outside, 1)
			}

			s := open(t, image.Options{Limits: image.Limits{Entries: 20, Bytes: 2000, Depth: 30}})
			_, err := importOf(t, s, entries)
			require.Error(t, err)
			require.Equal(t, fault.Invalid, fault.KindOf(err), "%v", err)
			nothingIn(t, s)

			left, err := os.ReadDir(outside)
			require.NoError(t, err)
			require.Len(t, left, 1)
		})
	}
}

// A link that a later entry of the same layer replaces is not followed.
func TestReplacedLink(t *testing.T) {
	t.Parallel()
	outside := filepath.Join(t.TempDir(), "victim")
	require.NoError(t, os.WriteFile(outside, []byte("safe"), 0o600))
	use, err := importOf(t, open(t, image.Options{}), []entry{symlink("a", outside), file("a", "new")})
	require.NoError(t, err)
	require.Equal(t, "new", read(t, use, 0, "a"))

	data, err := os.ReadFile(outside)
	require.NoError(t, err)
	require.Equal(t, "safe", string(data))
}

// The limits apply to all layers of an image together.
func TestBoundsOfAnImage(t *testing.T) {
	t.Parallel()

	half := strings.Repeat("0", 1500)
	s := open(t, image.Options{Limits: image.Limits{Bytes: 2000, Layers: 2}})
	_, err := importOf(t, s, []entry{file("a", half)}, []entry{file("b", half)})
	require.ErrorContains(t, err, "more than 2000 bytes")
	nothingIn(t, s)
	_, err = importOf(t, s, []entry{file("a", "1")}, []entry{file("b", "2")}, []entry{file("c", "3")})
	require.ErrorContains(t, err, "must have at most 2 layers, got 3")
}

// A layer whose content does not match its digest is refused.
func TestWrongDigest(t *testing.T) {
	t.Parallel()
	img := imageOf(t, []entry{file("a", "1")})
	config, err := img.ConfigFile()
	require.NoError(t, err)

	lying := config.DeepCopy()
	lying.RootFS.DiffIDs = []v1.Hash{{Algorithm: "sha256", Hex: strings.Repeat("1", 64)}}
	host := serve(t, nil)
	ref := push(t, host, "app:1", inconsistentImage{img, lying})
	s := open(t, image.Options{})
	err = pull(t, s, ref)
	require.ErrorContains(t, err, "the configuration has sha256:1111")
	require.Equal(t, fault.Invalid, fault.KindOf(err))
	nothingIn(t, s)
}

// No tar file makes unpacking panic or write outside of its folder.
func FuzzUnpack(f *testing.F) {
	f.Add(
		tarOf(
			f,
			dir("a"),
			file("a/b", "x"),
			symlink("l", "a"),
			file("l/c", "y"),
			hardlink("h", "a/b"),
			file("a/.wh.b", ""),
			file("a/.wh..wh..opq", ""),
		),
	)
	f.Add(tarOf(f, symlink("a", "/tmp"), file("a/b", "x")))
	f.Add(tarOf(f, file("../a", "x")))
	f.Add(tarOf(f, file("a", "x"), dir("a"), symlink("a", "b"), file("a", "z")))
	f.Fuzz(func(t *testing.T, data []byte) {
		base, err := os.MkdirTemp("", "fuzz-unpack-")
		require.NoError(t, err)

		defer os.RemoveAll(base)

		inner := filepath.Join(base, "a", "b")
		require.NoError(t, os.MkdirAll(inner, 0o755))
		_ = image.Unpack(context.Background(), bytes.NewReader(data), inner, image.Limits{
			Entries: 50,
			Bytes:   1 << 20,
			Depth:   20,
		})
		outer, err := os.ReadDir(filepath.Join(base, "a"))
		require.NoError(t, err)
		require.Len(t, outer, 1)
	})
}
