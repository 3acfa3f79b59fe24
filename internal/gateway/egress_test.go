package gateway_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/gateway"
	"github.com/rolloutd/rolloutd/internal/network/egress"
)

// A client's URL reaches no special address that the operator does not allow. The operator's own endpoints
// may have any address.
func TestClientsReachNoSpecialAddress(t *testing.T) {
	t.Parallel()
	h, e := newHost(t, func(o *gateway.Options) { o.Egress = egress.Policy{} }), newEngine(t, says(goodReply))
	r := h.route(e.URL)
	require.Equal(t, 400, send(t.Context(), h.open(t, r), "", streamed).status)
	require.Equal(t, fault.UpstreamRefused, h.status(t, r.ID).Failure.Kind)
	require.Equal(t, fault.UpstreamRefused, fault.KindOf(h.client.Probe(t.Context(), r.ID)))
	require.Empty(t, e.requests())
	operators := h.route(e.URL)
	operators.ID, operators.SandboxID, operators.Model.Endpoint = "r2.1", "r2.1", "vllm"
	require.Equal(t, 200, send(t.Context(), h.open(t, operators), "", streamed).status)
	own := operators
	own.ID, own.SandboxID, own.Model.Own = "r3.1", "r3.1", true
	require.Equal(t, 400, send(t.Context(), h.open(t, own), "", streamed).status)
	require.Len(t, e.requests(), 1)
}

// The reply from an address that a client named is not shown to the client unless it is an error of a model
// API. Of such an error, only the usual members are shown.
func TestReplyOfAnotherServerIsNotShown(t *testing.T) {
	t.Parallel()

	const secret = "AKIA-credentials-of-the-host"
	for name, tc := range map[string]struct {
		status int
		body   string
	}{
		"text":             {404, secret},
		"other JSON":       {403, `{"SecretAccessKey":"` + secret + `"}`},
		"beside an error":  {404, `{"error":{"message":"no","internal":"` + secret + `"},"x":"` + secret + `"}`},
		"an object":        {200, `{"SecretAccessKey":"` + secret + `"}`},
		"a response":       {200, `{"object":"response","SecretAccessKey":"` + secret + `"}`},
		"in place of JSON": {200, secret},
	} {
		for _, api := range apis() {
			t.Run(name+" "+api.api, func(t *testing.T) {
				t.Parallel()
				h, e := newHost(t), newEngine(t, answers(tc.status, tc.body))
				r := h.route(e.URL)
				r.Limits.Call = 200_000_000
				got := sendTo(t.Context(), h.open(t, r)+"/v1/"+api.api, "", api.ask+"}")
				require.Equal(t, 400, got.status)
				require.NotContains(t, got.body, secret)
				all, err := json.Marshal([]any{h.turns(t, r.ID), h.status(t, r.ID)})
				require.NoError(t, err)
				require.NotContains(t, string(all), secret)
			})
		}
	}
}
