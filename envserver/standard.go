package envserver

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rolloutd/rolloutd/envserver/internal/access"
	"github.com/rolloutd/rolloutd/envserver/internal/env"
	"github.com/rolloutd/rolloutd/envserver/internal/httpio"
	"github.com/rolloutd/rolloutd/envserver/internal/play"
	"github.com/rolloutd/rolloutd/envserver/internal/pyjson"
	"github.com/rolloutd/rolloutd/envserver/internal/reply"
	"github.com/rolloutd/rolloutd/envserver/internal/tools"
	"github.com/rolloutd/rolloutd/envserver/internal/underway"
	"github.com/rolloutd/rolloutd/internal/fault"
)

// isStandardMCP tells a client of the Model Context Protocol from an OpenEnv client on the same route: its transport obliges
// the former to accept an event stream, and the latter never names one.
func isStandardMCP(r *http.Request) bool {
	return strings.Contains(r.Header.Get("Accept"), "text/event-stream")
}

// standardHandlers are the handlers of the MCP library for one list of tools.
type standardHandlers struct {
	mu      sync.Mutex
	tools   *play.Tool // the first of the list that they are of, in an environment of interactive episodes
	objects http.Handler
	events  http.Handler // the same with streams of events
}

// standardFor returns the handler of the tools as they are now.
func (s *Server) standardFor(ctx context.Context, events bool) (http.Handler, error) {
	var first *play.Tool
	if s.env.Play != nil {
		list, err := s.env.Play.Tools(ctx)
		if err != nil {
			return nil, err
		}
		first = &list[0] // submit is always there
	}
	h := &s.standard
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.objects == nil || h.tools != first {
		listed, err := s.env.ListTools(ctx)
		if err != nil {
			return nil, err
		}
		h.tools, h.objects, h.events = first, s.standardMCP(listed.Tools, false), s.standardMCP(listed.Tools, true)
	}
	if events {
		return h.events, nil
	}
	return h.objects, nil
}

// standardMCP serves tools by the protocol's own rules (initialize, ping, notifications, camel case), stateless. Answers are objects, or
// streams of events, in which there is room for notifications of progress.
func (s *Server) standardMCP(list []reply.StepTool, events bool) http.Handler {
	server := mcp.NewServer(&mcp.Implementation{Name: s.o.Name, Version: s.o.Version}, &mcp.ServerOptions{Logger: s.o.Logger})
	for _, t := range list {
		s.addStandard(server, t)
	}
	server.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			if method == "tools/list" {
				s.env.Listed()
			}
			return next(ctx, method, req)
		}
	})
	return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server },
		&mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: !events, Logger: s.o.Logger,
			MaxRequestBodyBytes: -1}) // it is given what was read within our own bounds
}

// addStandard adds a tool. The library panics over a definition that it does not take, which a server outside the sandboxes may have sent.
func (s *Server) addStandard(server *mcp.Server, t reply.StepTool) {
	defer func() {
		if refused := recover(); refused != nil {
			s.o.Logger.Warn("tool not shown over MCP", "tool", t.Name, "error", refused)
		}
	}()
	server.AddTool(&mcp.Tool{Name: t.Name, Description: t.Description, InputSchema: t.InputSchema}, s.standardCall)
}

// maxStandard bounds a request of the protocol proper, in bytes: its library takes some twenty-five times as much to decode it.
const maxStandard = 4 << 20

// serveStandard answers a request of the protocol proper, whose body has been read; release is called once the library has read it too,
// for a call may take long. ctx is for its calls alone: the library gives no answer once a request's own context has ended, and does
// not end a call with it.
func (s *Server) serveStandard(ctx context.Context, w http.ResponseWriter, r *http.Request, body []byte, release func()) {
	if len(body) > maxStandard {
		httpio.WriteDetail(w, http.StatusRequestEntityTooLarge, fmt.Sprintf("Request body too large: MCP takes at most %d bytes", maxStandard))
		return
	}
	if err := pyjson.Check(body); err != nil {
		httpio.WriteDetail(w, http.StatusBadRequest, "the body holds "+err.Error())
		return
	}
	events := bytes.Contains(body, []byte(progressToken))
	handler, err := s.standardFor(ctx, events)
	if err != nil {
		httpio.WriteRefusal(w, err)
		return
	}
	ctx, over := s.cancellable(ctx, w, r, body)
	defer over()
	r = r.WithContext(context.WithValue(r.Context(), callKey{}, calling{ctx, env.SessionOf(r)}))
	r.Body = io.NopCloser(io.MultiReader(bytes.NewReader(body), atEnd(release)))
	if events {
		handler.ServeHTTP(withSplicer(w, r))
		return
	}
	w, stop := httpio.KeepWarm(w, s.o.PingInterval)
	defer stop()
	handler.ServeHTTP(withSplicer(w, r))
}

// cancellable gives a client that begins a name, under which its calls can be cancelled, and cancels calls. It returns the context of the call under
// way.
func (s *Server) cancellable(ctx context.Context, w http.ResponseWriter, r *http.Request, body []byte) (_ context.Context, over func()) {
	switch h := underway.HeadOf(body); h.Method {
	case "initialize":
		w.Header().Set(underway.SessionHeader, uuid.NewString())
	case "notifications/cancelled":
		s.underWay.Cancel(underway.Name(r, h.Params.RequestID))
	case "tools/call":
		return s.underWay.Begin(ctx, underway.Name(r, h.ID))
	}
	return ctx, func() {}
}

// progressToken is how a request asks for notifications of progress.
const progressToken = `"progressToken"`

// progress notifies a client that asked for it, at once and then at the interval of pings, that its call is under way: many bound the silence. The
// returned function ends it.
func (s *Server) progress(ctx context.Context, r *mcp.CallToolRequest) (stop func()) {
	token := r.Params.GetProgressToken()
	if token == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var notifying sync.WaitGroup
	notifying.Go(func() {
		begun, every := time.Now(), time.NewTicker(s.o.PingInterval)
		defer every.Stop()
		for {
			elapsed := time.Since(begun).Seconds()
			note := &mcp.ProgressNotificationParams{ProgressToken: token, Progress: elapsed, Message: fmt.Sprintf("%s: %.0f s", r.Params.Name, elapsed)}
			if r.Session.NotifyProgress(ctx, note) != nil {
				return // the client is gone, which ends the call, too
			}
			select {
			case <-ctx.Done():
				return
			case <-every.C:
			}
		}
	})
	return func() { cancel(); notifying.Wait() }
}

// atEnd is an empty reader that calls a function when it is read.
type atEnd func()

func (f atEnd) Read([]byte) (int, error) {
	f()
	return 0, io.EOF
}

type callKey struct{}

// calling is what a call of the library needs of its request.
type calling struct {
	ctx     context.Context // of the call alone
	session string          // that the request names
}

// tied is the library's context of a call, ended with the one that serveStandard was given.
func tied(ctx context.Context) (context.Context, context.CancelFunc) {
	own, _ := ctx.Value(callKey{}).(calling)
	calls := own.ctx
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(calls, func() { cancel(context.Cause(calls)) })
	return ctx, func() { stop(); cancel(nil) }
}

// standardCall runs a tool. What goes wrong in it is a result for the model to read, except that there is no such tool,
// which the library has seen to.
func (s *Server) standardCall(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	args, err := standardArgs(r.Params.Arguments)
	if err != nil {
		return nil, err
	}
	limit, err := s.env.Limit(r.Params.Meta)
	if err != nil {
		return nil, err
	}
	ctx, cancel := tied(ctx)
	defer cancel()
	defer s.progress(ctx, r)()
	if s.env.Play != nil {
		return s.standardPlay(ctx, r.Params.Name, args, r.Params.Meta, limit)
	}
	text, err := s.env.Call(ctx, tools.Call{Tool: r.Params.Name, Args: args, Limit: limit})
	if err != nil {
		return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: err.Error()}}}, nil
	}
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: marked(ctx, text)}}}, nil
}

func standardArgs(raw []byte) (map[string]any, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	v, err := pyjson.Decode(raw)
	if err != nil {
		return nil, err
	}
	args, ok := v.(map[string]any)
	if !ok && v != nil {
		return nil, fault.Field("arguments", "want an object")
	}
	return args, nil
}

// standardPlay makes a call in the interactive episode of the session that the request names, by its header X-Session-Id or the parameter
// session_id of its URL.
func (s *Server) standardPlay(ctx context.Context, tool string, args, meta map[string]any, limit time.Duration) (*mcp.CallToolResult, error) {
	own, _ := ctx.Value(callKey{}).(calling)
	caller := access.WithCaller(ctx, access.CallerOf(own.ctx))
	sess, done, err := s.env.Begun(caller, own.session, false)
	if err != nil {
		return failedCall(err), nil
	}
	defer done()
	defer s.env.Keep(ctx, sess)
	out := s.env.PlayStep(caller, sess, play.Step{ID: env.RequestIDOf(meta), Tool: tool, Args: args}, limit)
	if out.Err != nil {
		return failedCall(out.Err), nil
	}
	r := &mcp.CallToolResult{IsError: out.Result.Error, Content: []mcp.Content{&mcp.TextContent{Text: out.Result.Text()}}}
	if len(out.Result.Data) > 0 {
		r.StructuredContent = out.Result.Data
	}
	if out.Done {
		r.Meta = mcp.Meta{"done": true, "reward": out.Reward}
	}
	return r, nil
}

func failedCall(err error) *mcp.CallToolResult {
	return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: reply.Explain(err)}}}
}
