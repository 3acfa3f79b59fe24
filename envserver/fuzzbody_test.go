package envserver_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/envserver"
	"github.com/rolloutd/rolloutd/internal/catalog"
	"github.com/rolloutd/rolloutd/internal/network/egress"
)

// FuzzBody checks that every body gets a JSON object as the answer, with an expected status and no internal error.
func FuzzBody(f *testing.F) {
	paths := []string{"/reset", "/step", "/rollouts", "/rollouts/none/abort", "/mcp"}
	for _, body := range []string{
		``, `null`, `{}`, `[]`, `{"seed":NaN,"episode_id":"e"}`, `{"seed":1e999}`, `{"seed":-9223372036854775809}`,
		`{"action":{"type":"list_tools"},"timeout_s":Infinity}`, `{"action":{"tool_name":"get_state","arguments":{"rollout_id":"x"}},"timeout_s":1e-300}`,
		`{"instruction":"x","endpoint":"vllm","agent_timeout_s":1e308,"max_turns":-Infinity}`, `{"reason":5}`, "\x00\xff\xfe", `"` + "\xed\xa0\x80" + `"`,
		strings.Repeat(`{"action":`, 600), strings.Repeat("[", 100_000), `{"session_id":"` + strings.Repeat("s", 300) + `"}`,
	} {
		for i := range paths {
			f.Add(uint8(i), body)
		}
	}

	srv, err := envserver.New(envserver.Options{
		Rollouts: newFake(),
		Resolve:  catalog.New(func(string) string { return "" }, egress.Policy{}).Resolve,
		Seal:     strings.ToUpper,
	})
	require.NoError(f, err)

	expected := []int{
		http.StatusOK,
		http.StatusAccepted,
		http.StatusNotFound,
		http.StatusConflict,
		http.StatusUnprocessableEntity,
		http.StatusServiceUnavailable,
	}

	f.Fuzz(func(t *testing.T, path uint8, body string) {
		rec := httptest.NewRecorder()
		srv.ServeHTTP(
			rec,
			httptest.NewRequestWithContext(
				t.Context(),
				"POST",
				"http://localhost"+paths[int(path)%len(paths)],
				strings.NewReader(body),
			),
		)
		require.Contains(t, expected, rec.Code, rec.Body)
		require.Equal(t, "application/json", rec.Header().Get("Content-Type"))
		object(t, rec.Body.String())
	})
}
