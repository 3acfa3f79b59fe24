package envserver

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/google/uuid"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rolloutd/rolloutd/envserver/internal/access"
	"github.com/rolloutd/rolloutd/envserver/internal/env"
	"github.com/rolloutd/rolloutd/envserver/internal/episodes"
	"github.com/rolloutd/rolloutd/envserver/internal/httpio"
	"github.com/rolloutd/rolloutd/envserver/internal/jsonvalue"
	"github.com/rolloutd/rolloutd/envserver/internal/reply"
	"github.com/rolloutd/rolloutd/envserver/internal/session"
)

// isStandardMCP distinguishes a client of the Model Context Protocol from an OpenEnv client on the same
// route: the former should accept an event stream, the latter never does. A client that does not is known
// by its first request and by the headers of the others, which OpenEnv does not have.
func isStandardMCP(r *http.Request, body []byte) bool {
	if strings.Contains(accepted(r), eventStream) || r.Header.Get(sessionHeader) != "" ||
		r.Header.Get("MCP-Protocol-Version") != "" {
		return true
	}

	first := readCallHead(body)

	return first.Method == "initialize" && len(first.Params.ProtocolVersion) > 0
}

const eventStream = "text/event-stream"

// accepted is the list of the types that a client accepts, in lower case.
func accepted(r *http.Request) string {
	return strings.ToLower(strings.Join(r.Header.Values("Accept"), ","))
}

// wantsEvents reports whether a request is answered as an event stream: only then can it have progress
// notifications. A client gets one if it takes nothing else.
func wantsEvents(r *http.Request, body []byte) bool {
	all := accepted(r)
	streams := strings.Contains(all, eventStream)
	others := all == "" || strings.Contains(all, "json") || strings.Contains(all, "*/*") ||
		strings.Contains(all, "application/*")

	return streams && (!others || bytes.Contains(body, []byte(progressToken)))
}

// standardHandlers are the handlers of the MCP library for one list of tools.
type standardHandlers struct {
	mu sync.Mutex

	// first tool of their list, in an environment of interactive episodes
	tools    *episodes.Tool
	handlers map[standardForm]http.Handler
}

// standardForm is the form of a handler's answers.
type standardForm struct {
	// as event streams, which can carry progress notifications; else as JSON objects
	events bool

	// only for clients that begin with initialize: later versions of the protocol have no sessions, and an
	// episode needs one
	handshake bool
}

// firstWithoutSessions is the first version of the protocol that has no sessions. Versions are dates.
const firstWithoutSessions = "2026-07-28"

func (f standardForm) versions() []string {
	if !f.handshake {
		// all
		return nil
	}

	return slices.DeleteFunc(mcp.SupportedProtocolVersions(), func(v string) bool { return v >= firstWithoutSessions })
}

// standardFor returns the handler of the current tools.
func (s *Server) standardFor(ctx context.Context, form standardForm) (http.Handler, error) {
	var first *episodes.Tool

	if s.env.Play != nil {
		list, err := s.env.Play.Tools(ctx)
		if err != nil {
			return nil, err
		}
		// submit is always included
		first = &list[0]
	}

	h := &s.standard
	h.mu.Lock()
	defer h.mu.Unlock()

	if h.handlers == nil || h.tools != first {
		h.tools, h.handlers = first, map[standardForm]http.Handler{}
	}

	if h.handlers[form] == nil {
		listed, err := s.env.ListTools(ctx)
		if err != nil {
			return nil, err
		}

		h.handlers[form] = s.standardMCP(listed.Tools, form)
	}

	return h.handlers[form], nil
}

// standardMCP serves tools by the protocol's own rules (initialize, ping, notifications, camel case). The
// library keeps no sessions.
func (s *Server) standardMCP(list []reply.StepTool, form standardForm) http.Handler {
	server := mcp.NewServer(&mcp.Implementation{Name: s.o.Name, Version: s.o.Version},
		&mcp.ServerOptions{Logger: s.o.Logger, SupportedProtocolVersions: form.versions()})
	for _, t := range list {
		s.addStandard(server, t)
	}

	server.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			if method == "tools/list" {
				s.env.CountList()
			}

			return next(ctx, method, req)
		}
	})
	// its input was read within our own bounds
	return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server },
		&mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: !form.events, Logger: s.o.Logger,
			MaxRequestBodyBytes: -1})
}

// addStandard adds a tool. The library panics on an invalid definition, which a server outside the
// sandboxes may have sent.
func (s *Server) addStandard(server *mcp.Server, t reply.StepTool) {
	defer func() {
		if refused := recover(); refused != nil {
			s.o.Logger.Warn("tool not shown over MCP", "tool", t.Name, "error", refused)
		}
	}()

	server.AddTool(&mcp.Tool{Name: t.Name, Description: t.Description, InputSchema: t.InputSchema}, s.standardCall)
}

// maxStandard bounds a request of standard MCP, in bytes: the library needs about twenty-five times as much
// memory to decode it.
const maxStandard = 4 << 20

// serveStandard answers a request of standard MCP, whose body has been read. It calls release when the
// library has read it too, since a call may take long. ctx is only for the calls: the library gives no
// answer after the request's own context has ended, and does not end a call with it.
func (s *Server) serveStandard(
	ctx context.Context,
	w http.ResponseWriter,
	r *http.Request,
	body []byte,
	release func(),
) {
	if len(body) > maxStandard {
		httpio.WriteDetail(
			w,
			http.StatusRequestEntityTooLarge,
			fmt.Sprintf("Request body too large: MCP takes at most %d bytes", maxStandard),
		)

		return
	}

	if err := jsonvalue.Check(body); err != nil {
		httpio.WriteDetail(w, http.StatusBadRequest, "the body holds "+err.Error())
		return
	}

	form := standardForm{events: wantsEvents(r, body), handshake: s.issuesEpisodes(r)}

	handler, err := s.standardFor(ctx, form)
	if err != nil {
		httpio.WriteRefusal(w, err)
		return
	}

	head := readCallHead(body)

	sess, done, err := s.standardSession(w, r, head)
	if err != nil {
		httpio.WriteRefusal(w, err)
		return
	}
	defer done()

	ctx, over := s.cancellable(ctx, r, head)
	defer over()

	r = r.Clone(context.WithValue(r.Context(), callKey{}, calling{ctx, env.SessionOf(r), sess}))
	// the library refuses clients that do not accept both
	r.Header.Set("Accept", "application/json, "+eventStream)

	if r.Header.Get("Content-Type") == "" {
		r.Header.Set("Content-Type", "application/json")
	}

	r.Body = io.NopCloser(io.MultiReader(bytes.NewReader(body), atEnd(release)))
	if form.events {
		handler.ServeHTTP(withTexts(w, r))
		return
	}

	w, stop := httpio.KeepAlive(w, s.o.PingInterval)
	defer stop()

	handler.ServeHTTP(withTexts(w, r))
}

// standardSession returns the session of a request; nil: its client has none from initialize, or names
// another. A client that begins gets its id but no episode yet, since many clients only list the tools. The
// caller calls done after the request.
func (s *Server) standardSession(
	w http.ResponseWriter,
	r *http.Request,
	h callHead,
) (_ *session.Session, done func(), err error) {
	id, done := r.Header.Get(sessionHeader), func() {}
	switch {
	case h.Method == "initialize" && s.issuesEpisodes(r):
		sess, err := s.env.Open(r.Context())
		if err != nil {
			return nil, nil, err
		}

		w.Header().Set(sessionHeader, sess.ID)
	case h.Method == "initialize":
		w.Header().Set(sessionHeader, uuid.NewString())
	case id != "" && s.issuesEpisodes(r):
		return s.env.Sessions.Use(r.Context(), access.CallerOf(r.Context()).Name, id)
	}

	return nil, done, nil
}

// cancellable returns the context of a request's call, which can be canceled by the request's id, and
// handles cancellations.
func (s *Server) cancellable(ctx context.Context, r *http.Request, h callHead) (_ context.Context, over func()) {
	switch h.Method {
	case "notifications/cancelled":
		s.underWay.Cancel(callName(r, h.Params.RequestID))
	case "tools/call":
		return s.underWay.Begin(ctx, callName(r, h.ID))
	}

	return ctx, func() {}
}

// progressToken is the member by which a request asks for progress notifications.
const progressToken = `"progressToken"`

// atEnd is an empty reader that calls a function when it is read.
type atEnd func()

func (f atEnd) Read([]byte) (int, error) {
	f()
	return 0, io.EOF
}
