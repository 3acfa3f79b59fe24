package envserver

import (
	"context"
	"net/http"

	"github.com/rolloutd/rolloutd/envserver/internal/access"
	"github.com/rolloutd/rolloutd/envserver/internal/env"
	"github.com/rolloutd/rolloutd/envserver/internal/httpio"
	"github.com/rolloutd/rolloutd/envserver/internal/jsonrpc"
	"github.com/rolloutd/rolloutd/envserver/internal/session"
)

// mcpPost is JSON-RPC over HTTP: the status is 200 whatever the answer.
func (s *Server) mcpPost(w http.ResponseWriter, r *http.Request) {
	data, release, ok := s.bodies.Read(w, r)
	if !ok {
		return
	}
	defer release()

	ctx, cancel := s.callContext(r)
	defer cancel()

	if isStandardMCP(r, data) {
		s.serveStandard(ctx, w, r, data, release)
		return
	}

	w, stop := httpio.KeepAlive(w, s.o.PingInterval)
	defer stop()

	req, bad := jsonrpc.Parse(data)

	release()

	if bad != nil {
		if bad.Code == jsonrpc.ParseError {
			// over HTTP the reference gives no more
			bad.Message = "Parse error"
		}

		httpio.WriteJSON(w, http.StatusOK, jsonrpc.Response{Error: bad})

		return
	}

	httpio.WriteJSON(w, http.StatusOK, s.rpc(ctx, req, nil))
}

// mcpDelete ends a session of standard MCP with its episode, and its client's calls in progress. It keeps a
// session that the URL or another header names, since other clients may use it.
func (s *Server) mcpDelete(w http.ResponseWriter, r *http.Request) {
	id := r.Header.Get(sessionHeader)
	if id == "" {
		httpio.WriteDetail(w, http.StatusBadRequest, "DELETE needs the header "+sessionHeader)
		return
	}

	s.underWay.CancelAll(r)

	if s.issuesEpisodes(r) {
		if _, err := s.env.Sessions.Close(r.Context(), access.CallerOf(r.Context()).Name, id); err != nil {
			httpio.WriteRefusal(w, err)
			return
		}
	}

	w.WriteHeader(http.StatusNoContent)
}

// issuesEpisodes reports whether the session of a request of standard MCP is that of its initialize, and
// has an episode.
func (s *Server) issuesEpisodes(r *http.Request) bool {
	return s.env.Play != nil && env.SessionOf(r) == ""
}

// mcpSocket serves JSON-RPC over a WebSocket, frame by frame.
func (s *Server) mcpSocket(w http.ResponseWriter, r *http.Request) {
	s.socket(w, r, protocol{
		refuse: func(err error) any {
			e := rpcError(err)
			e.Code = jsonrpc.ServerError

			return jsonrpc.Response{Error: e}
		},
		failed: func(message string) any {
			return jsonrpc.Response{Error: &jsonrpc.Error{Code: jsonrpc.InternalError, Message: message}}
		},
		handle: s.mcpFrame,
	})
}

func (s *Server) mcpFrame(ctx context.Context, sess *session.Session, raw []byte) any {
	req, bad := jsonrpc.Parse(raw)
	if bad != nil {
		return jsonrpc.Response{Error: bad}
	}

	_, span := s.env.Tracer.Start(ctx, "ws mcp")

	reply := spanned(span, deferredReply(func(ctx context.Context) any { return s.rpc(ctx, req, sess) }))
	if work, ok := reply.(deferredReply); ok && req.ID != nil {
		return namedDeferredReply(work)
	}

	return reply
}
