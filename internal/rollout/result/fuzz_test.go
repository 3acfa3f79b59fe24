package result_test

import (
	"archive/tar"
	"bytes"
	"io"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/rollout/result"
)

// For any home of an agent, the files taken from it are bounded text below the workdir.
func FuzzFilesOf(f *testing.F) {
	f.Add(tarOf(map[string]string{"/h/workdir/a.py": "print()", "/h/workdir/b": "\x00", "/h/x": "y"}, "/h"))
	f.Add(tarOf(map[string]string{"/h/workdir/../../etc/passwd": "root"}, "/h"))
	f.Add([]byte("no tar"))
	f.Fuzz(func(t *testing.T, archive []byte) {
		texts, extra, _ := result.FilesOf(bytes.NewReader(archive))
		require.LessOrEqual(t, len(texts), 64)

		for name, text := range texts {
			require.True(t, strings.HasPrefix(name, "/home/user/workdir/"))
			require.True(t, utf8.ValidString(text))
			require.LessOrEqual(t, utf8.RuneCountInString(text), 8000)
		}

		for _, name := range extra {
			require.True(t, strings.HasPrefix(name, "/home/user/workdir/"))
		}
	})
}

// tarOf packs the files below dir.
func tarOf(files map[string]string, dir string) []byte {
	var buf bytes.Buffer

	tw := tar.NewWriter(&buf)

	for name, text := range files {
		if rel, ok := strings.CutPrefix(name, dir+"/"); ok {
			_ = tw.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: rel, Size: int64(len(text)), Mode: 0o644})
			_, _ = io.WriteString(tw, text)
		}
	}

	_ = tw.Close()

	return buf.Bytes()
}
