package binary_test

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/agent/opencode/binary"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/filelock"
)

const fakeBinary = "#!/bin/sh\necho I am opencode\n"

func sumOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// fakeNPM returns an npm that packs the file named member with the given text and records its calls in a file.
func fakeNPM(t *testing.T, member, text string) (npm, calls string) {
	t.Helper()
	dir := t.TempDir()
	pack := filepath.Join(dir, "packed.tgz")
	f, err := os.Create(pack)
	require.NoError(t, err)

	z := gzip.NewWriter(f)
	w := tar.NewWriter(z)
	require.NoError(t, w.WriteHeader(&tar.Header{Name: "package/package.json", Typeflag: tar.TypeReg, Mode: 0o644}))
	require.NoError(t, w.WriteHeader(&tar.Header{
		Name:     member,
		Typeflag: tar.TypeReg,
		Mode:     0o644,
		Size:     int64(len(text)),
	}))
	_, err = w.Write([]byte(text))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	require.NoError(t, z.Close())
	require.NoError(t, f.Close())

	calls = filepath.Join(dir, "calls")

	return script(
		t,
		fmt.Sprintf(`echo "$@" >> %s; [ "$3" = --pack-destination ] || exit 9; cp %s "$4/pack.tgz"`, calls, pack),
	), calls
}

func script(t *testing.T, body string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "npm")
	require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\n"+body+"\n"), 0o755))

	return path
}

func fetcher(dir, npm, sum string) *binary.Cache {
	return binary.New(binary.Options{
		AgentsDir: dir,
		NPM:       npm,
		Version:   "1.2.3",
		Platform:  "linux/amd64",
		Releases: []binary.Release{
			{Version: "1.2.3", Platform: "linux/amd64", Package: "opencode-test", SHA256: sum},
		},
	})
}

// Concurrent fetches download once, and later fetches do not download.
func TestFetchDownloadsOnce(t *testing.T) {
	t.Parallel()
	npm, calls := fakeNPM(t, "package/bin/opencode", fakeBinary)
	dir := t.TempDir()

	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			path, err := fetcher(dir, npm, sumOf(fakeBinary)).Fetch(t.Context())
			if err != nil || path != filepath.Join(dir, "opencode", "1.2.3", "opencode") {
				t.Errorf("Fetch = %q, %v", path, err)
			}
		})
	}

	wg.Wait()

	text, err := os.ReadFile(calls)
	require.NoError(t, err)
	require.Regexp(
		t,
		`^pack opencode-test@1\.2\.3 --pack-destination \S+ --ignore-scripts --loglevel error\n$`,
		string(text),
	)

	entries, err := os.ReadDir(filepath.Join(dir, "opencode"))
	require.NoError(t, err)
	require.Len(t, entries, 2, "the version and the lock, no leftovers")

	version := filepath.Join(dir, "opencode", "1.2.3")
	for name, mode := range map[string]os.FileMode{"opencode": 0o755, "models.json": 0o644} {
		info, err := os.Stat(filepath.Join(version, name))
		require.NoError(t, err)
		require.Equal(t, mode, info.Mode().Perm(), name)
	}
}

// Files of a killed fetch are removed.
func TestFetchRemovesUnfinishedDownloads(t *testing.T) {
	t.Parallel()
	npm, _ := fakeNPM(t, "package/bin/opencode", fakeBinary)
	dir := t.TempDir()
	left := filepath.Join(dir, "opencode", ".fetch-123")
	require.NoError(t, os.MkdirAll(left, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(left, "opencode"), []byte("half"), 0o600))
	_, err := fetcher(dir, npm, sumOf(fakeBinary)).Fetch(t.Context())
	require.NoError(t, err)
	require.NoDirExists(t, left)
}

func TestFetchUsesAnExistingBinary(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "opencode", "1.2.3", "opencode")
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte(fakeBinary), 0o600))
	got, err := fetcher(dir, "no-such-npm", sumOf(fakeBinary)).Fetch(t.Context())
	require.NoError(t, err)
	require.Equal(t, path, got)
}

// A binary that was changed after it had been verified is not used.
func TestFetchNoticesAChangedBinary(t *testing.T) {
	t.Parallel()
	npm, _ := fakeNPM(t, "package/bin/opencode", fakeBinary)
	a := fetcher(t.TempDir(), npm, sumOf(fakeBinary))
	path, err := a.Fetch(t.Context())
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\necho I am not opencode\n"), 0o755))
	_, err = a.Fetch(t.Context())
	require.True(t, fault.Is(err, fault.Conflict), "%v", err)
	require.ErrorContains(t, err, "remove it")
}

func TestFetchErrorsSayHowToFixThem(t *testing.T) {
	t.Parallel()
	wrong, _ := fakeNPM(t, "package/bin/opencode", "something else")

	empty, _ := fakeNPM(t, "package/bin/other", fakeBinary)
	for name, c := range map[string]struct {
		npm  string
		kind fault.Kind
		want string
	}{
		"no npm":         {"no-such-npm", fault.NotFound, "install Node.js with npm, or put the binary at"},
		"no network":     {script(t, "echo npm error code ENOTFOUND >&2; exit 1"), fault.Unavailable, "is the npm registry reachable"},
		"what npm said":  {script(t, "echo npm error code ENOTFOUND >&2; exit 1"), fault.Unavailable, "npm said: npm error code ENOTFOUND"},
		"no package":     {script(t, "true"), fault.Internal, "0 packages"},
		"wrong checksum": {wrong, fault.Conflict, "is not the pinned file"},
		"wrong package":  {empty, fault.Internal, "package/bin/opencode is not in it"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			_, err := fetcher(dir, c.npm, sumOf(fakeBinary)).Fetch(t.Context())
			require.ErrorContains(t, err, c.want)
			require.Equal(t, c.kind, fault.KindOf(err))
			entries, err := os.ReadDir(filepath.Join(dir, "opencode"))
			require.NoError(t, err)
			require.Len(t, entries, 1, "nothing but the lock stays")
		})
	}
}

func TestFetchStopsWaitingWithItsContext(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "opencode"), 0o755))
	lock, err := filelock.Acquire(filepath.Join(dir, "opencode", ".lock"))

	require.NoError(t, err)
	defer func() { require.NoError(t, lock.Release()) }()

	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()

	_, err = fetcher(dir, "no-such-npm", "").Fetch(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "is held by")
}

func TestUnsupportedPlatformsAreRefused(t *testing.T) {
	t.Parallel()

	for _, o := range []binary.Options{{Platform: "linux/arm64"}, {Platform: "darwin/arm64"}, {
		Platform: "linux/amd64",
		Version:  "0.0.1",
	}} {
		_, err := binary.New(o).Fetch(t.Context())
		require.True(t, fault.Is(err, fault.NotFound), "%v", err)
		require.ErrorContains(t, err, "supported: 1.18.33 for linux/amd64")
	}
}
