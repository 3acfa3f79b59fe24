package grading_test

import (
	"archive/tar"
	"bytes"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// available returns the styles without pytest if this machine does not have it.
func available(t *testing.T) []style {
	t.Helper()
	return slices.DeleteFunc(styles(), func(s style) bool { return s.packages && pytestPackages(t) == nil })
}

var findPytest = sync.OnceValues(func() ([]string, error) {
	out, err := exec.Command("python3", "-c", `import _pytest, iniconfig, packaging, pluggy, py, pygments, pytest
for m in _pytest, iniconfig, packaging, pluggy, pygments, pytest: print(m.__path__[0])
print(py.__file__)`).Output()

	return strings.Fields(string(out)), err
})

// pytestPackages returns an archive of pytest as if the setup had installed it for the user, or nil if this
// machine does not have it.
func pytestPackages(t testing.TB) []byte {
	t.Helper()

	if _, err := findPytest(); err != nil {
		return nil
	}

	archive, err := packPytest()
	require.NoError(t, err)

	return archive
}

// packPytest makes the archive once: it takes longer than most tests.
var packPytest = sync.OnceValues(func() ([]byte, error) {
	folders, err := findPytest()
	if err != nil {
		return nil, err
	}

	version, err := exec.Command("/usr/bin/python3", "-c", "import sys; print('python%d.%d' % sys.version_info[:2])").
		Output()
	if err != nil {
		return nil, err
	}

	site := strings.TrimSpace(string(version)) + "/site-packages/"

	var buf bytes.Buffer

	w := tar.NewWriter(&buf)

	for _, folder := range folders {
		err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || filepath.Ext(path) != ".py" {
				return err
			}

			content, err := os.ReadFile(path)
			if err != nil {
				return err
			}

			rel, err := filepath.Rel(filepath.Dir(folder), path)
			if err == nil {
				err = w.WriteHeader(&tar.Header{
					Typeflag: tar.TypeReg,
					Name:     site + rel,
					Size:     int64(len(content)),
					Mode:     0o644,
				})
			}

			if err == nil {
				_, err = io.Copy(w, bytes.NewReader(content))
			}

			return err
		})
		if err != nil {
			return nil, err
		}
	}

	return buf.Bytes(), w.Close()
})
