package envserver_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/go-chi/chi/v5"
	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/envserver"
)

// undescribed are the routes that are not part of the API.
var undescribed = []string{"/openapi.json", "/docs", "/redoc", "/", "/web", "/web/", `/web/{part:[a-z]+\.(?:css|js)}`}

// The routes that are served are those in the document, in every mode.
func TestEveryRouteIsInTheDocument(t *testing.T) {
	t.Parallel()

	for name, change := range map[string]func(*envserver.Options){
		"simulation": func(*envserver.Options) {},
		"production": func(o *envserver.Options) { o.Mode = envserver.Production },
		"web":        withWeb,
		"task sets":  withHarbor(t),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := start(t, change)

			var served []string

			require.NoError(
				t,
				chi.Walk(
					r.srv.Router(),
					func(method, path string, _ http.Handler, _ ...func(http.Handler) http.Handler) error {
						// HEAD is answered like GET
						if !slices.Contains(undescribed, path) && method != http.MethodHead {
							served = append(served, method+" "+path)
						}

						return nil
					},
				),
			)

			var described []string

			ids := map[string]bool{}

			for path, operations := range r.says.document(t).Paths {
				for method, op := range operations {
					described = append(described, strings.ToUpper(method)+" "+path)

					require.NotContains(t, ids, op.OperationID)
					ids[op.OperationID] = true
				}
			}

			require.ElementsMatch(t, served, described)
		})
	}
}

// The document has the schemas that the reference server's document has.
func TestComponentsOfTheReference(t *testing.T) {
	t.Parallel()

	r := start(t)
	for _, name := range []string{
		"ResetRequest", "ResetResponse", "StepRequest", "StepResponse", "State", "EnvironmentMetadata",
		"HealthResponse", "HealthStatus", "SchemaResponse", "HTTPValidationError", "ValidationError",
	} {
		require.Contains(t, r.says.document(t).Components.Schemas, name)
	}
}

// The server accepts bodies that the document allows and refuses bodies that it forbids.
func TestRequestsAreAsDescribed(t *testing.T) {
	t.Parallel()
	r := start(t)

	const call = `{"action":{"tool_name":"get_state","arguments":{"rollout_id":"x"}}`
	for _, c := range []struct {
		path, body string
		right      bool
	}{
		{"/reset", `{}`, true},
		{"/reset", `{"seed":7,"episode_id":"e","difficulty":"hard","attach":false}`, true},
		{"/reset", `{"seed":null,"episode_id":null,"session_id":null}`, true},
		{"/reset", `{"seed":-1}`, false},
		{"/reset", `{"attach":"true"}`, false},
		{"/reset", `{"episode_id":"` + strings.Repeat("e", 256) + `"}`, false},
		{"/reset", `[]`, false},
		{"/step", call + `,"timeout_s":2.5,"request_id":"r","more":1}`, true},
		{"/step", call + `,"timeout_s":null,"request_id":null,"session_id":null}`, true},
		{"/step", call + `,"timeout_s":0}`, false},
		{"/step", call + `,"request_id":5}`, false},
		{"/step", `{}`, false},
		{"/step", `{"action":[]}`, false},
		{"/rollouts", `{"instruction":"x","endpoint":"vllm"}`, true},
		{"/rollouts", `{"instruction":"x","endpoint":"vllm","disable_thinking":null,"limits":{"turns":3}}`, true},
		{"/rollouts", `{"instruction":""}`, false},
		{"/rollouts", `{"instruction":"x","endpoint":"vllm","colour":"red"}`, false},
		{"/rollouts", `{"instruction":"x","endpoint":"vllm","agent_timeout_s":0}`, false},
		{"/rollouts", `{"instruction":"x","endpoint":"vllm","mode":"loud"}`, false},
		{"/groups", `{"instruction":"x","endpoint":"vllm","group_size":2}`, true},
		{"/groups", `{"instruction":"x","endpoint":"vllm"}`, false},
	} {
		op, ok := r.says.document(t).find("POST", c.path)
		require.True(t, ok)
		err := r.says.document(t).accepts(t, op.RequestBody.Content["application/json"].Schema, c.body)

		status, _, out := r.do("POST", c.path, c.body)
		if c.right {
			require.NoError(t, err, c.body)
			require.Less(t, status, 300, out)
		} else {
			require.Error(t, err, c.body)
			require.Equal(t, http.StatusUnprocessableEntity, status, c.body)
		}
	}
}

// The document describes the response for a missing artifact. The function do checks the response against it.
func TestAMissingArtifactIsDescribed(t *testing.T) {
	t.Parallel()

	r := start(t, func(o *envserver.Options) { o.Episodes = struct{ envserver.Episodes }{} })
	for _, route := range []string{"read", "list", "archive"} {
		status, _, out := r.do("POST", "/executor/artifacts/"+route, `{"trajectory_id":"none"}`)
		require.Equal(t, http.StatusOK, status, out)
		require.Contains(t, out, `"success":false`)
	}
}

// The document of a server with tokens has the routes that need one.
func TestTokensAreDescribed(t *testing.T) {
	t.Parallel()

	r := start(t, func(o *envserver.Options) { o.Tokens = []envserver.Token{envserver.PlainToken("0123456789abcdef")} })
	for path, operations := range r.says.document(t).Paths {
		for method, op := range operations {
			status, _, _ := r.do(strings.ToUpper(method), strings.ReplaceAll(path, "{id}", "x"), "")
			require.Equal(t, status == http.StatusUnauthorized, len(op.Security) > 0, path)
		}
	}
}
