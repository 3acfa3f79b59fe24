package gateway_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/testkit/pyclient"
)

// The real clients accept the gateway's replies, whether the engine streams, answers with one object, or
// the route has ended.
func TestRealClientsOfTheAPIs(t *testing.T) {
	t.Parallel()

	python := pyclient.Interpreter(t, pyclient.ModelClients())
	for _, whole := range []bool{false, true} {
		h, e := newHost(t), newEngine(t, eachAPI(t, whole))
		url := h.open(t, h.route(e.URL))
		python.Run(t, "testdata/models.py", url)

		for _, turn := range h.turns(t, "r1.1") {
			if turn.Broken == "" {
				require.True(t, turn.Delivered, "turn %d %s %s", turn.Turn, turn.API, turn.Request)
				require.Empty(t, turn.Flaws)
			}
		}

		require.NoError(t, h.client.End(t.Context(), "r1.1", "over"))
		python.Run(t, "testdata/models.py", url, "ended")
	}
}

// eachAPI answers in the requested API, with a stream or, if whole is set, with one object.
func eachAPI(t *testing.T, whole bool) http.HandlerFunc {
	t.Helper()

	replies := map[string]string{}
	for _, s := range apis() {
		replies[s.api] = s.stream
		if whole {
			h, e := newHost(t), newEngine(t, says(s.stream))
			replies[s.api] = sendTo(
				t.Context(),
				h.open(t, h.route(e.URL))+"/v1/"+s.api,
				"",
				s.ask+`,"logprobs":true,"return_token_ids":true,"include":["message.output_text.logprobs"],"enable_response_messages":true}`,
			).body
		}
	}

	return func(w http.ResponseWriter, r *http.Request) {
		body := new(strings.Builder)

		_, _ = io.Copy(body, r.Body)
		if strings.Contains(body.String(), `"user_id":`) {
			answers(400, `{"type":"error","error":{"type":"invalid_request_error","message":"no"}}`)(w, r)
			return
		}

		answers(200, replies[strings.TrimPrefix(r.URL.Path, "/v1/")])(w, r)
	}
}
