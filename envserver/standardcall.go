package envserver

import (
	"context"
	"fmt"
	"sync"
	"time"

	wire "github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rolloutd/rolloutd/envserver/internal/access"
	"github.com/rolloutd/rolloutd/envserver/internal/episodes"
	"github.com/rolloutd/rolloutd/envserver/internal/jsonrpc"
	"github.com/rolloutd/rolloutd/envserver/internal/jsonvalue"
	"github.com/rolloutd/rolloutd/envserver/internal/reply"
	"github.com/rolloutd/rolloutd/envserver/internal/session"
	"github.com/rolloutd/rolloutd/envserver/internal/tools"
	"github.com/rolloutd/rolloutd/internal/fault"
)

type callKey struct{}

// calling is the part of a request that a call of the library needs.
type calling struct {
	// the context of the call alone
	ctx context.Context

	// the session named by the URL or by X-Session-Id
	sessionID string

	// the session of its initialize; nil: none
	session *session.Session
}

// libraryContext returns the library's context of a call, which also ends with serveStandard's.
func libraryContext(ctx context.Context) (context.Context, context.CancelFunc) {
	own, _ := ctx.Value(callKey{}).(calling)
	calls := own.ctx
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(calls, func() { cancel(context.Cause(calls)) })

	return ctx, func() { stop(); cancel(nil) }
}

// standardCall runs a tool. A failure is a result for the model to read, except for wrong arguments and for
// an unknown tool, which the library has refused.
func (s *Server) standardCall(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	args, err := standardArgs(r.Params.Arguments)
	if err != nil {
		return nil, invalidParams(err)
	}

	meta, err := s.env.ReadMeta(r.Params.Meta)
	if err != nil {
		return nil, invalidParams(err)
	}

	ctx, cancel := libraryContext(ctx)
	defer cancel()
	defer s.progress(ctx, r)()

	if s.env.Play != nil {
		return s.standardPlay(ctx, episodes.Step{ID: meta.RequestID, Tool: r.Params.Name, Args: args}, meta.Limit)
	}

	text, err := s.env.Call(ctx, tools.Call{Tool: r.Params.Name, Args: args, Limit: meta.Limit})
	if fault.Is(err, fault.Invalid) {
		return nil, invalidParams(err)
	}

	if err != nil {
		return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: err.Error()}}}, nil
	}

	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: markText(ctx, text)}}}, nil
}

// invalidParams is the protocol's error for wrong arguments.
func invalidParams(err error) error {
	return &wire.Error{Code: jsonrpc.InvalidParams, Message: reply.Explain(err)}
}

func standardArgs(raw []byte) (map[string]any, error) {
	if len(raw) == 0 {
		return nil, nil
	}

	v, err := jsonvalue.Decode(raw)
	if err != nil {
		return nil, err
	}

	args, ok := v.(map[string]any)
	if !ok && v != nil {
		return nil, fault.Field("arguments", "must be an object")
	}

	return args, nil
}

// standardPlay makes a call in an interactive episode: that of the session named by the header X-Session-Id
// or the parameter session_id of the URL, else of the client's own.
func (s *Server) standardPlay(
	ctx context.Context,
	step episodes.Step,
	limit time.Duration,
) (*mcp.CallToolResult, error) {
	own, _ := ctx.Value(callKey{}).(calling)
	caller := access.WithCaller(ctx, access.CallerOf(own.ctx))

	sess, done, err := s.standardEpisode(caller, own)
	if err != nil {
		return failedCall(err), nil
	}
	defer done()
	defer s.env.SaveSession(ctx, sess)

	caller, unbind := sess.Bind(caller)
	defer unbind()

	out := s.env.PlayStep(caller, sess, step, limit)
	if out.Err != nil {
		return failedCall(out.Err), nil
	}

	r := &mcp.CallToolResult{
		IsError: out.Result.Error,
		Content: []mcp.Content{&mcp.TextContent{Text: out.Result.Text()}},
	}
	if len(out.Result.Data) > 0 {
		r.StructuredContent = out.Result.Data
	}

	if out.Done {
		r.Meta = mcp.Meta{"done": true, "reward": out.Reward}
	}

	return r, nil
}

func (s *Server) standardEpisode(ctx context.Context, own calling) (*session.Session, func(), error) {
	if own.session != nil {
		// serveStandard releases it
		return own.session, func() {}, nil
	}

	return s.env.SessionForReset(ctx, own.sessionID, false)
}

func failedCall(err error) *mcp.CallToolResult {
	return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: reply.Explain(err)}}}
}

// progress notifies a client that asked for it, at once and then at the ping interval, that its call is in
// progress: many clients bound the silence. The returned function ends it.
func (s *Server) progress(ctx context.Context, r *mcp.CallToolRequest) (stop func()) {
	token := r.Params.GetProgressToken()
	if token == nil {
		return func() {}
	}

	ctx, cancel := context.WithCancel(ctx)

	var notifying sync.WaitGroup
	notifying.Go(func() {
		started, every := time.Now(), time.NewTicker(s.o.PingInterval)
		defer every.Stop()

		for {
			elapsed := time.Since(started).Seconds()

			note := &mcp.ProgressNotificationParams{
				ProgressToken: token,
				Progress:      elapsed,
				Message:       fmt.Sprintf("%s: %.0f s", r.Params.Name, elapsed),
			}
			if r.Session.NotifyProgress(ctx, note) != nil {
				// the client is gone, which also ends the call
				return
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
