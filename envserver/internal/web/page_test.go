package web_test

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/envserver/internal/web"
)

// maxPage bounds what a browser loads for the page, each file compressed, in bytes.
const maxPage = 400 << 10

// The page's files are served as they are in the sources, and are small: there is no build.
func TestPageIsSmall(t *testing.T) {
	t.Parallel()

	page, err := web.Page("/web/")
	require.NoError(t, err)

	names, err := os.ReadDir("page")
	require.NoError(t, err)

	var size int64

	for _, name := range names {
		source, err := os.ReadFile("page/" + name.Name())
		require.NoError(t, err)

		path := name.Name()
		if path == "index.html" {
			path = ""
		}

		w := httptest.NewRecorder()
		page.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/web/"+path, nil))
		require.Equal(t, string(source), w.Body.String(), name.Name())

		size += compressed(t, source)
	}

	require.Less(t, size, int64(maxPage))
}

func compressed(t *testing.T, data []byte) int64 {
	t.Helper()

	var out bytes.Buffer

	w := gzip.NewWriter(&out)
	_, err := w.Write(data)
	require.NoError(t, err)
	require.NoError(t, w.Close())

	return int64(out.Len())
}
