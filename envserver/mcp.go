package envserver

import (
	"context"
	"net/http"
	"runtime/debug"

	"github.com/rolloutd/rolloutd/envserver/internal/jsonrpc"
	"github.com/rolloutd/rolloutd/envserver/internal/session"
)

// mcpPost is JSON-RPC over HTTP: the status is 200 whatever the answer.
func (s *Server) mcpPost(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := s.callContext(r)
	defer cancel()
	if isStandardMCP(r) {
		s.standard.ServeHTTP(w, r.WithContext(ctx))
		return
	}
	data, ok := s.body(w, r)
	if !ok {
		return
	}
	req, bad := jsonrpc.Parse(data)
	if bad != nil {
		if bad.Code == jsonrpc.ParseError {
			bad.Message = "Parse error" // over HTTP the reference gives no more
		}
		writeJSON(w, http.StatusOK, jsonrpc.Response{Error: bad})
		return
	}
	writeJSON(w, http.StatusOK, s.rpc(ctx, req, nil))
}

// mcpSocket is JSON-RPC over a WebSocket of its own, frame by frame.
func (s *Server) mcpSocket(w http.ResponseWriter, r *http.Request) {
	s.socket(w, r, protocol{
		refuse: func(err error) any {
			e := rpcError(err)
			e.Code = jsonrpc.ServerError
			return jsonrpc.Response{Error: e}
		},
		handle: s.mcpFrame,
	})
}

func (s *Server) mcpFrame(ctx context.Context, sess *session.Session, raw []byte) (out any, more bool) {
	var req jsonrpc.Request
	defer func() {
		if v := recover(); v != nil {
			out, more = jsonrpc.Response{ID: req.ID, Error: &jsonrpc.Error{Code: jsonrpc.InternalError,
				Message: "internal error (id " + s.logPanic(v, debug.Stack()) + ")"}}, true
		}
	}()
	req, bad := jsonrpc.Parse(raw)
	if bad != nil {
		return jsonrpc.Response{Error: bad}, true
	}
	return s.rpc(ctx, req, sess), true
}
