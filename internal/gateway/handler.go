package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/gateway/dialect"
	"github.com/rolloutd/rolloutd/internal/gateway/gatewayapi"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
	"github.com/rolloutd/rolloutd/internal/text"
)

// maxBody bounds a request of the agent, in bytes.
const maxBody = 32 << 20

// maxCallID bounds a call id, in bytes.
const maxCallID = 256

// modelList is the answer to GET /v1/models. The name is an alias, because agents adapt their prompts to
// the model's name.
const modelList = `{"object":"list","data":[{"id":"m","object":"model","created":0,"owned_by":"rolloutd"}]}`

// agentAPI is the model endpoint that agents see. All routes share one.
type agentAPI struct {
	// by path; nearly all requests
	calls map[string]*dialect.Dialect

	// requests whose context has the route under routeKey
	rest *http.ServeMux
}

// routeKey is the context key of a request's route.
type routeKey struct{}

func newAgentAPI() *agentAPI {
	api := &agentAPI{calls: map[string]*dialect.Dialect{}, rest: http.NewServeMux()}
	served := "GET /v1/models"

	for _, d := range dialect.All() {
		path := "/v1/" + string(d.API)
		api.calls[path] = d
		served = "POST " + path + ", " + served
	}

	served = "POST /v1beta/models/{model}:generateContent, " + served

	api.serve("POST "+googlePath, (*route).serveGoogle)
	api.serve("POST "+googlePathOfV1, (*route).serveGoogle)
	api.serve("POST "+countPath, (*route).serveCount)
	api.serve("GET /v1/models", func(_ *route, w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, []byte(modelList))
	})
	api.serve("/", func(_ *route, w http.ResponseWriter, req *http.Request) {
		notFound(w, "no "+req.Method+" "+req.URL.Path+" here: served are "+served)
	})

	return api
}

func (api *agentAPI) serve(pattern string, do func(*route, http.ResponseWriter, *http.Request)) {
	api.rest.HandleFunc(pattern, func(w http.ResponseWriter, req *http.Request) {
		do(req.Context().Value(routeKey{}).(*route), w, req)
	})
}

// of returns the endpoint of one route.
func (api *agentAPI) of(r *route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.Method == http.MethodConnect || req.URL.Host != "" {
			notFound(w, "this is a model endpoint, not a proxy: it reaches no other host")
			return
		}

		if d, ok := api.calls[req.URL.Path]; ok && req.Method == http.MethodPost {
			r.serveCall(w, req, d, false)
			return
		}

		api.rest.ServeHTTP(w, req.WithContext(context.WithValue(req.Context(), routeKey{}, r)))
	})
}

// serveCall reads a call of the agent, gets its answer and delivers it. A call from the host is never foreign.
func (r *route) serveCall(w http.ResponseWriter, req *http.Request, d *dialect.Dialect, fromHost bool) {
	// the rollout's agent uses no model
	if r.Model.BaseURL == "" {
		refuse(w, d, http.StatusBadRequest, "this rollout has no model endpoint", "")
		return
	}

	size := weight(req)
	if r.room.Acquire(req.Context(), size) != nil {
		// the caller is gone
		panic(http.ErrAbortHandler)
	}
	defer r.room.Release(size)

	body, err := readBody(w, req, r.bodies.Get())
	if err != nil {
		refuse(w, d, bodyStatus(err), err.Error(), "")
		return
	}

	a, err := dialect.Read(d, req.Header, body, r.Model, r.Capture)
	// nothing decoded from the body refers to it
	r.bodies.Put(body)

	if err != nil {
		refuse(w, d, http.StatusBadRequest, "request body: "+err.Error(), "")
		return
	}

	if r.experts.wanted {
		a.AskExperts()
	}

	if r.masks {
		a.AskMask()
	}

	if fromHost {
		a.Fallback = fallbackOf(req)
	} else {
		if r.markForeign(req.Context(), req.Header, a) != nil {
			// an aborted call makes the sandbox ask again
			panic(http.ErrAbortHandler)
		}
	}

	out := &delivery{w: w, request: a, beat: r.keepAlive, fromHost: fromHost}

	ans, over, ok := r.answer(req.Context(), callID(req), out)
	if !ok {
		// The caller is gone, or the call has no outcome yet. An aborted stream makes the sandbox ask again.
		panic(http.ErrAbortHandler)
	}
	defer over()

	r.deliver(req, out, ans)
}

// bodyStatus returns the HTTP status for a body that could not be read.
func bodyStatus(err error) int {
	if fault.Is(err, fault.Exhausted) {
		return http.StatusRequestEntityTooLarge
	}

	return http.StatusBadRequest
}

// weight is the memory that a request reserves, in bytes: the maximum if its length is unknown.
func weight(req *http.Request) int64 {
	if req.ContentLength < 0 {
		return maxBody
	}

	return min(max(req.ContentLength, minRequest), maxBody)
}

// readBody appends the request's body to an empty slice.
func readBody(w http.ResponseWriter, req *http.Request, body []byte) ([]byte, error) {
	if req.ContentLength > maxBody {
		return nil, fault.New(fault.Exhausted, "request body is larger than %d MiB", maxBody>>20)
	}

	limited := http.MaxBytesReader(w, req.Body, maxBody)

	body = slices.Grow(body, int(min(max(req.ContentLength, 0), minRequest)+512))
	for {
		n, err := limited.Read(body[len(body):cap(body)])

		body = body[:len(body)+n]
		if errors.Is(err, io.EOF) {
			return body, nil
		}

		var tooLarge *http.MaxBytesError
		if errors.As(err, &tooLarge) {
			return nil, fault.New(fault.Exhausted, "request body is larger than %d MiB", maxBody>>20)
		}

		if err != nil {
			return nil, fault.New(fault.Invalid, "request body did not arrive whole")
		}

		if len(body) == cap(body) {
			body = append(body, 0)[:len(body)]
		}
	}
}

// maxFallback bounds the reason of a fallback, in bytes.
const maxFallback = 500

// fallbackOf returns why the prompt of a call from the host is not made of token ids; "": no reason.
func fallbackOf(req *http.Request) string {
	why, err := url.QueryUnescape(req.Header.Get(gatewayapi.FallbackHeader))
	if err != nil {
		return ""
	}

	return text.HeadUTF8(strings.ToValidUTF8(why, "?"), maxFallback)
}

// callID returns sandboxd's id of the call, which stays the same when it asks again. Without one, each
// request is a call of its own.
func callID(req *http.Request) string {
	id := strings.ToValidUTF8(req.Header.Get(wire.CallIDHeader), "?")
	if id == "" || len(id) > maxCallID {
		return uuid.NewString()
	}

	return id
}

// refuse answers with an error in the form of the API.
func refuse(w http.ResponseWriter, d *dialect.Dialect, status int, text, code string) {
	writeJSON(w, status, d.ErrorBody(text, code))
}

func notFound(w http.ResponseWriter, text string) {
	writeJSON(w, http.StatusNotFound, dialect.OpenAIError(text))
}

func writeJSON(w http.ResponseWriter, status int, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	// the caller may have hung up
	_, _ = w.Write(body)
}

// Path prefixes of the models in the two versions of Google's API. The method follows the model's name after a colon.
const (
	googlePath     = "/v1beta/models/{call}"
	googlePathOfV1 = "/v1/models/{call}"
)

// serveGoogle serves one call of Google's API.
func (r *route) serveGoogle(w http.ResponseWriter, req *http.Request) {
	model, method, _ := strings.Cut(req.PathValue("call"), ":")
	switch method {
	case "generateContent":
		r.serveCall(w, req, dialect.Google(model, false, false), false)
	case "streamGenerateContent":
		r.serveCall(w, req, dialect.Google(model, true, req.URL.Query().Get("alt") != "sse"), false)
	case "countTokens":
		r.serveSize(w, req, dialect.Google(model, false, false), "totalTokens", "generateContentRequest")
	default:
		refuse(
			w,
			dialect.Google(model, false, false),
			http.StatusNotFound,
			fmt.Sprintf(
				"the method of a model must be generateContent, streamGenerateContent or countTokens, got %.100q",
				method,
			),
			"",
		)
	}
}
