package webtool_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/network/egress"
	"github.com/rolloutd/rolloutd/internal/tool"
	"github.com/rolloutd/rolloutd/internal/tool/webtool"
)

func site(t *testing.T) (url string, allow egress.Policy) {
	t.Helper()

	mux := http.NewServeMux()
	page := func(path, kind, text string) {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			_, _ = io.WriteString(w, text)
		})
	}
	page(
		"/page",
		"text/html; charset=iso-8859-1",
		"<html><head><script>evil()</script></head><body><h1>Caf\xe9</h1><p>One <b>two</b></p><img src='data:image/png;base64,AAAA'></body></html>",
	)
	page("/long", "text/plain", strings.Repeat("é", 100_000))
	page("/binary", "application/octet-stream", "\x00\x01")
	page(
		"/search",
		"application/json",
		`{"results":[{"title":"T","url":"https://example.org/","content":"D"},{},{},{},{},{"title":"sixth"}]}`,
	)
	page("/html", "text/html", `<html>Sign in</html>`)
	mux.HandleFunc("GET /away", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, r.URL.Query().Get("to"), http.StatusFound)
	})
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	policy, err := egress.Parse([]string{strings.TrimPrefix(srv.URL, "http://")})
	require.NoError(t, err)

	return srv.URL, policy
}

func extract(t *testing.T, tools *webtool.Tools, urls ...string) []map[string]string {
	t.Helper()

	arguments, err := json.Marshal(map[string]any{"urls": urls})
	require.NoError(t, err)
	r, err := tools.Call(t.Context(), tool.Env{}, tool.Call{Name: "web_extract", Arguments: arguments})
	require.NoError(t, err)
	require.False(t, r.Error, r.Message)

	var out struct{ Results []map[string]string }
	require.NoError(t, json.Unmarshal([]byte(r.Content), &out))

	return out.Results
}

func TestExtract(t *testing.T) {
	t.Parallel()
	at, policy := site(t)
	pages := extract(
		t,
		webtool.New(webtool.Options{Pages: policy}),
		at+"/page",
		at+"/long",
		at+"/binary",
		at+"/missing",
		"file:///etc/passwd",
	)
	require.Equal(t, map[string]string{
		"url":     at + "/page",
		"title":   "Café",
		"content": "# Café\n\nOne **two**\n\n![](data URL left out)",
	}, pages[0])
	require.Contains(t, pages[1]["content"], "é\n[... 184000 bytes left out ...]")
	require.Equal(t, `content type "application/octet-stream" is not text`, pages[2]["error"])
	require.Equal(t, "status 404", pages[3]["error"])
	require.Equal(t, "must be an http or https URL", pages[4]["error"])
}

// Addresses of the operator's network are refused, under every name and behind redirects.
func TestExtractReachesNoPrivateHost(t *testing.T) {
	t.Parallel()
	at, policy := site(t)

	none := webtool.New(webtool.Options{Pages: egress.Policy{}.Setting("tool_server.web.allow_hosts")})
	for _, u := range []string{
		at + "/page", "http://localhost:1/", "http://169.254.169.254/latest/meta-data/", "http://metadata.google.internal/", "http://[::1]/", "http://10.0.0.1/",
		"http://2130706433/", "http://[::ffff:127.0.0.1]/", "http://0.0.0.0/",
	} {
		pages := extract(t, none, u)
		require.Regexp(t, "tool_server.web.allow_hosts|neither a host name nor an address", pages[0]["error"], u)
		require.Empty(t, pages[0]["content"])
	}

	pages := extract(
		t,
		webtool.New(webtool.Options{Pages: policy}),
		at+"/away?to="+url.QueryEscape("http://169.254.169.254/"),
		at+"/away?to=/page",
	)
	require.Contains(t, pages[0]["error"], "169.254.169.254 is a link-local address")
	require.Equal(t, "Café", pages[1]["title"])
}

func TestSearch(t *testing.T) {
	t.Parallel()
	at, _ := site(t)
	find := func(u string) (tool.Result, error) {
		return webtool.New(webtool.Options{SearchURL: u}).Call(t.Context(), tool.Env{}, tool.Call{
			Name:      "web_search",
			Arguments: json.RawMessage(`{"query":"go"}`),
		})
	}
	r, err := find(at + "/search")
	require.NoError(t, err)
	require.True(
		t,
		strings.HasPrefix(
			r.Content,
			`{"data":{"web":[{"title":"T","url":"https://example.org/","description":"D","position":1}`,
		),
		r.Content,
	)
	require.Equal(t, 5, strings.Count(r.Content, `"position"`))

	for _, bad := range []string{"/html", "/missing"} {
		_, err = find(at + bad)
		require.True(t, fault.Is(err, fault.Unavailable), "%v", err)
	}

	list, err := webtool.New(webtool.Options{}).List(t.Context())
	require.NoError(t, err)
	require.Len(t, list, 1, "without an endpoint there is no search")

	r, err = find("")
	require.NoError(t, err)
	require.Equal(t, "Unknown tool: web_search", r.Message)
}
