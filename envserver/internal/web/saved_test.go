package web_test

import (
	"encoding/base64"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/envserver/internal/web"
)

// saved returns a page with one answer, as a client gets it.
func saved(t *testing.T, place, path string, answer func(http.ResponseWriter)) string {
	t.Helper()

	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		page, err := web.NewSavedPage(w, place)
		if err == nil {
			_, err = page.Answer(path, io.Discard, answer)
		}

		if err == nil {
			err = page.Close()
		}

		if err != nil {
			panic(http.ErrAbortHandler)
		}
	}))
	t.Cleanup(srv.Close)

	resp, err := srv.Client().Get(srv.URL)
	require.NoError(t, err)

	defer resp.Body.Close()

	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)

	return string(text)
}

// The scripts are in the page, and name each other by the import map alone.
func TestSavedPageHasItsScripts(t *testing.T) {
	t.Parallel()

	page := saved(t, "#/rollouts/r", "rollouts/r", func(http.ResponseWriter) {})
	scripts := regexp.MustCompile(`"rolloutd/[a-z]+\.js":"data:text/javascript;base64,([^"]+)"`).FindAllStringSubmatch(page, -1)
	require.Greater(t, len(scripts), 20)

	for _, script := range scripts {
		text, err := base64.StdEncoding.DecodeString(script[1])
		require.NoError(t, err)
		require.NotContains(t, string(text), `from "./`)
	}

	require.NotContains(t, page, `src="app.js"`)
	require.NotContains(t, page, `href="style.css"`)
	require.True(t, strings.HasSuffix(page, "</body>\n</html>\n"))
}

// Nothing of an answer, its path or the place is read as HTML.
func TestSavedPageIsInert(t *testing.T) {
	t.Parallel()

	const hostile = `"></script><script>alert(1)</script>`

	page := saved(t, hostile, hostile, func(w http.ResponseWriter) {
		w.WriteHeader(http.StatusTeapot)
		_, _ = io.WriteString(w, hostile)
	})
	require.NotContains(t, page, "<script>alert")
	require.Contains(t, page, `data-status="418"`)
}

// A handler may bound the time of a slow client, and flush.
func TestSavedAnswerHasTheConnection(t *testing.T) {
	t.Parallel()

	saved(t, "#/", "x", func(w http.ResponseWriter) {
		conn := http.NewResponseController(w)
		assert.NoError(t, conn.SetWriteDeadline(time.Now().Add(time.Minute)))
		assert.NoError(t, conn.Flush())
	})
}
