package envserver

import (
	"context"
	"strings"

	"github.com/rolloutd/rolloutd/envserver/internal/access"
	"github.com/rolloutd/rolloutd/envserver/internal/jsonrpc"
	"github.com/rolloutd/rolloutd/envserver/internal/session"
)

func (s *Server) rpcCreate(ctx context.Context, own *session.Session) (any, error) {
	if own != nil {
		return map[string]string{"session_id": own.ID}, nil
	}

	sess, err := s.env.Open(ctx)
	if err != nil {
		return nil, err
	}

	return map[string]string{"session_id": sess.ID}, nil
}

func (s *Server) rpcClose(ctx context.Context, r jsonrpc.Request, own *session.Session) (any, error) {
	id := sessionParam(r)
	if strings.TrimSpace(id) == "" {
		return nil, &jsonrpc.Error{Code: jsonrpc.InvalidParams, Message: "Invalid params - 'session_id' is required"}
	}

	owner := access.CallerOf(ctx).Name
	if own != nil {
		owner = own.Owner
	}

	if own != nil && own.ID == id {
		return nil, &session.HeldError{ID: id, Owned: true}
	}

	closing, err := s.env.Sessions.Close(ctx, owner, id)
	if err != nil {
		return nil, err
	}
	// it ends when the WebSocket attached to it does
	if closing {
		return map[string]any{"session_id": id, "closed": false, "closing": true}, nil
	}

	return map[string]any{"session_id": id, "closed": true}, nil
}
