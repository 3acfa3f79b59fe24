package temporalx_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/rolloutd/rolloutd/internal/temporalx"
)

const uiOrigin = "http://127.0.0.1:8233"

func codecServer(t *testing.T) *httptest.Server {
	t.Helper()
	srv := httptest.NewServer(temporalx.CodecHandler(testKey(t, "a"), []string{uiOrigin}))
	t.Cleanup(srv.Close)

	return srv
}

func send(t *testing.T, method, url, origin string, body []byte) (*http.Response, []byte) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, bytes.NewReader(body))
	require.NoError(t, err)

	if origin != "" {
		req.Header.Set("Origin", origin)
	}

	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)

	defer res.Body.Close()

	data, err := io.ReadAll(res.Body)
	require.NoError(t, err)

	return res, data
}

func sealedBody(t *testing.T, value any) []byte {
	t.Helper()
	payload, err := temporalx.DataConverter(testKey(t, "a")).ToPayload(value)
	require.NoError(t, err)
	body, err := protojson.Marshal(&commonpb.Payloads{Payloads: []*commonpb.Payload{payload}})
	require.NoError(t, err)

	return body
}

func TestCodecHandlerDecodesForTheUI(t *testing.T) {
	t.Parallel()
	res, body := send(t, http.MethodPost, codecServer(t).URL+"/decode", uiOrigin, sealedBody(t, "hello"))
	require.Equal(t, http.StatusOK, res.StatusCode, string(body))
	require.Equal(t, uiOrigin, res.Header.Get("Access-Control-Allow-Origin"))

	var got commonpb.Payloads
	require.NoError(t, protojson.Unmarshal(body, &got))
	require.Equal(t, `"hello"`, string(got.Payloads[0].Data))
}

func TestCodecHandlerAnswersThePreflight(t *testing.T) {
	t.Parallel()
	res, _ := send(t, http.MethodOptions, codecServer(t).URL+"/decode", uiOrigin, nil)
	require.Equal(t, http.StatusNoContent, res.StatusCode)
	require.Equal(t, uiOrigin, res.Header.Get("Access-Control-Allow-Origin"))
	require.Contains(t, res.Header.Get("Access-Control-Allow-Headers"), "X-Namespace")
}

// A page of another origin in the operator's browser gets neither a reply nor permission to read one.
func TestCodecHandlerRefusesOtherOrigins(t *testing.T) {
	t.Parallel()

	for _, method := range []string{http.MethodPost, http.MethodOptions} {
		res, body := send(t, method, codecServer(t).URL+"/decode", "http://evil.example", sealedBody(t, "hello"))
		require.Equal(t, http.StatusForbidden, res.StatusCode)
		require.Empty(t, res.Header.Get("Access-Control-Allow-Origin"))
		require.NotContains(t, string(body), "hello")
	}
}

func TestCodecHandlerRefusesNonsense(t *testing.T) {
	t.Parallel()
	srv := codecServer(t)
	res, _ := send(t, http.MethodPost, srv.URL+"/decode", "", []byte("{"))
	require.Equal(t, http.StatusBadRequest, res.StatusCode)
	res, _ = send(t, http.MethodPost, srv.URL+"/elsewhere", "", []byte("{}"))
	require.Equal(t, http.StatusNotFound, res.StatusCode)
}

// A page of another site whose request has no Origin is refused as well.
func TestCodecHandlerRefusesOtherSites(t *testing.T) {
	t.Parallel()

	for site, want := range map[string]int{
		"cross-site":  http.StatusForbidden,
		"same-site":   http.StatusForbidden,
		"same-origin": http.StatusOK,
		"none":        http.StatusOK,
		"":            http.StatusOK,
	} {
		r := httptest.NewRequest(http.MethodPost, "/decode", bytes.NewReader(sealedBody(t, "hello")))
		r.Header.Set("Sec-Fetch-Site", site)

		w := httptest.NewRecorder()
		temporalx.CodecHandler(testKey(t, "a"), []string{uiOrigin}).ServeHTTP(w, r)
		require.Equal(t, want, w.Code, site)
	}
}
