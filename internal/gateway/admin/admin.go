package admin

import (
	"cmp"
	"context"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/gateway"
	"github.com/rolloutd/rolloutd/internal/gateway/gatewayapi"
	"github.com/rolloutd/rolloutd/internal/seal"
)

// maxWait bounds how long a request may wait.
const maxWait = time.Minute

// Options are the settings of an API.
type Options struct {
	// Key is the deployment's key. Its admin token is for the admin API, its trainer token for the trainer API.
	Key seal.Key

	// additional tokens of the trainer API
	TrainerTokens []string

	// nil: silent
	Logger *slog.Logger
}

// API serves a gateway over HTTP.
type API struct {
	gateway *gateway.Server
	options Options
	log     *slog.Logger
}

// New returns the API of a gateway.
func New(g *gateway.Server, o Options) *API {
	return &API{gateway: g, options: o, log: cmp.Or(o.Logger, slog.New(slog.DiscardHandler))}
}

// Handler serves the admin API, to the roles of the deployment. Every request needs their token.
//
//	GET    /routes                              → {"ids": […]}
//	PUT    /routes/{id}        Route            → 204
//	GET    /routes/{id}                         → RouteStatus
//	POST   /routes/{id}/end    {"reason": …}    → 204, when canceled calls are recorded
//	POST   /routes/{id}/sessions {"sessions": […]} → 204; these are the agent's own
//	GET    /routes/{id}/turns?after=N           → TurnList
//	POST   /routes/{id}/probe                   → 204, when the endpoint answers; a fault.UpstreamFailed or UpstreamRefused else
//	POST   /routes/{id}/inspect?wait=30s        → rollout.EndpointReport; empty where the probe takes longer
//	GET    /routes/{id}/trace                   → JSON lines of rollout.Turn
//	GET    /routes/{id}/trace?images=apart      → the same, with the digests of images in the place of their bytes
//	GET    /routes/{id}/images                  → the images, one after another, as that trace describes them
//	GET    /routes/{id}/routed_experts          → rows of routed experts, as the trace describes them
//	DELETE /routes/{id}                         → 204
//	POST   /watch     lines of WatchCommand     → lines of WatchChange, while the body lasts
//	GET    /ready/{name}                        → 204; a fault.Exhausted while new rollouts should wait for that upstream
//
// It also serves the model APIs below /routes/{id}/v1, which need the token of the route; see gateway.Server.HostAPI.
func (a *API) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+gatewayapi.RoutesPath, answering(a.getRoutes))
	mux.HandleFunc("PUT "+gatewayapi.RoutePath, answering(a.putRoute))
	mux.HandleFunc("GET "+gatewayapi.RoutePath, answering(a.getRoute))
	mux.HandleFunc("POST "+gatewayapi.EndPath, answering(a.endRoute))
	mux.HandleFunc("GET "+gatewayapi.TracePath, answering(a.getTrace))
	mux.HandleFunc("GET "+gatewayapi.ExpertsPath, answering(a.getExperts))
	mux.HandleFunc("GET "+gatewayapi.ImagesPath, answering(a.getImages))
	mux.HandleFunc("POST "+gatewayapi.SessionsPath, answering(a.addSessions))
	mux.HandleFunc("GET "+gatewayapi.TurnsPath, answering(a.getTurns))
	mux.HandleFunc("POST "+gatewayapi.ProbePath, answering(a.probe))
	mux.HandleFunc("POST "+gatewayapi.InspectPath, answering(a.inspect))
	mux.HandleFunc("DELETE "+gatewayapi.RoutePath, answering(a.deleteRoute))
	mux.HandleFunc("POST "+gatewayapi.WatchPath, answering(a.watch))
	mux.HandleFunc("GET "+gatewayapi.ReadyPath, answering(a.getReady))

	all := http.NewServeMux()
	for pattern, do := range a.gateway.HostAPI() {
		all.HandleFunc(pattern, a.ofRoute(answering(do)))
	}

	all.Handle("/", authorized(mux, a.options.Key.Token(gatewayapi.AdminPurpose)))

	return all
}

// ofRoute requires the token of the route in the request's path.
func (a *API) ofRoute(next http.Handler) http.HandlerFunc {
	return func(w http.ResponseWriter, req *http.Request) {
		authorized(next, gatewayapi.RouteToken(a.options.Key, req.PathValue("id"))).ServeHTTP(w, req)
	}
}

func (a *API) getReady(w http.ResponseWriter, req *http.Request) error {
	return done(w, a.gateway.Ready(req.PathValue("name")))
}

func (a *API) getRoutes(w http.ResponseWriter, _ *http.Request) error {
	return encode(w, gatewayapi.RouteList{IDs: a.gateway.Routes()})
}

func (a *API) putRoute(w http.ResponseWriter, req *http.Request) error {
	var def gatewayapi.Route
	if err := readRequest(w, req, &def); err != nil {
		return err
	}

	if def.ID != req.PathValue("id") {
		return fault.Field("id", "%q is not the path's %q", def.ID, req.PathValue("id"))
	}

	return done(w, a.gateway.Open(def))
}

func (a *API) getRoute(w http.ResponseWriter, req *http.Request) error {
	status, err := a.gateway.Status(req.PathValue("id"))
	if err != nil {
		return err
	}

	return encode(w, status)
}

func (a *API) endRoute(w http.ResponseWriter, req *http.Request) error {
	var in gatewayapi.EndRequest
	if err := readRequest(w, req, &in); err != nil {
		return err
	}

	return done(w, a.gateway.End(req.Context(), req.PathValue("id"), in.Reason))
}

func (a *API) addSessions(w http.ResponseWriter, req *http.Request) error {
	var in gatewayapi.SessionsRequest
	if err := readRequest(w, req, &in); err != nil {
		return err
	}

	return done(w, a.gateway.AddSessions(req.PathValue("id"), in))
}

func (a *API) getTurns(w http.ResponseWriter, req *http.Request) error {
	after, err := strconv.Atoi(req.URL.Query().Get("after"))
	if err != nil {
		return fault.Field("after", "%q is not a number of calls", req.URL.Query().Get("after"))
	}

	turns, err := a.gateway.Turns(req.PathValue("id"), after)
	if err != nil {
		return err
	}

	return encode(w, gatewayapi.TurnList{Turns: turns})
}

func (a *API) probe(w http.ResponseWriter, req *http.Request) error {
	return done(w, a.gateway.Probe(req.Context(), req.PathValue("id")))
}

func (a *API) inspect(w http.ResponseWriter, req *http.Request) error {
	wait, err := waitOf(req)
	if err != nil {
		return err
	}

	ctx, cancel := context.WithTimeout(req.Context(), wait)
	defer cancel()

	report, err := a.gateway.Inspect(ctx, req.PathValue("id"))
	if err != nil {
		return err
	}

	return encode(w, report)
}

func (a *API) deleteRoute(w http.ResponseWriter, req *http.Request) error {
	return done(w, a.gateway.Close(req.Context(), req.PathValue("id")))
}

func (a *API) getTrace(w http.ResponseWriter, req *http.Request) error {
	return a.stream(w, req, "application/jsonl", func(to io.Writer) error {
		return a.gateway.Export(req.Context(), req.PathValue("id"), to, req.URL.Query().Get("images") == "apart")
	})
}

func (a *API) getImages(w http.ResponseWriter, req *http.Request) error {
	return a.stream(w, req, "application/octet-stream", func(to io.Writer) error {
		return a.gateway.ExportImages(req.PathValue("id"), to)
	})
}

func (a *API) getExperts(w http.ResponseWriter, req *http.Request) error {
	return a.stream(w, req, "application/octet-stream", func(to io.Writer) error {
		return a.gateway.ExportExperts(req.PathValue("id"), to)
	})
}

// stream answers with what write writes. A failure aborts the response, so that a reader does not take a part for the
// whole.
func (a *API) stream(w http.ResponseWriter, req *http.Request, kind string, write func(io.Writer) error) error {
	w.Header().Set("Content-Type", kind)
	out := &countingWriter{w: w}

	err := write(out)
	if err != nil && out.n > 0 {
		a.log.Error("answer broken off", "path", req.URL.Path, "error", err)
		panic(http.ErrAbortHandler)
	}

	return err
}

type countingWriter struct {
	w io.Writer
	n int
}

func (c *countingWriter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += n

	return n, err
}

// waitOf returns for how long a request may wait.
func waitOf(req *http.Request) (time.Duration, error) {
	text := req.URL.Query().Get("wait")

	wait, err := time.ParseDuration(text)
	if err != nil {
		return 0, fault.Field("wait", "%q is not a duration such as 30s", text)
	}

	return min(max(wait, 0), maxWait), nil
}
