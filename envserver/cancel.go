package envserver

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"

	"github.com/google/uuid"

	"github.com/rolloutd/rolloutd/envserver/internal/access"
	"github.com/rolloutd/rolloutd/envserver/internal/tools"
)

// sessionHeader names a client of MCP proper from its initialize on. The server keeps nothing under the name but the calls that are under way: they
// can be cancelled, and a client that comes to another replica, or after a restart, goes on all the same.
const sessionHeader = "Mcp-Session-Id"

// rpcHead is what tells a request of MCP proper from a cancellation of one.
type rpcHead struct {
	Method string          `json:"method"`
	ID     json.RawMessage `json:"id"`
	Params struct {
		RequestID json.RawMessage `json:"requestId"`
	} `json:"params"`
}

// underWay are the calls of MCP proper that can be cancelled. It is safe for concurrent use.
type underWay struct {
	mu    sync.Mutex
	calls map[string]context.CancelCauseFunc
}

// callName names a call; "" where its client has no session, for requests of several clients have the same ids.
func callName(r *http.Request, id json.RawMessage) string {
	session := r.Header.Get(sessionHeader)
	if session == "" || len(id) == 0 {
		return ""
	}
	return access.CallerOf(r.Context()).Name + "\x00" + session + "\x00" + string(id)
}

// begin returns the context of a call, which a cancellation ends as its client's leaving would; see Table.left.
func (u *underWay) begin(ctx context.Context, name string) (_ context.Context, over func()) {
	if name == "" {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.calls == nil {
		u.calls = map[string]context.CancelCauseFunc{}
	}
	_, taken := u.calls[name] // a client that repeats an id cannot cancel the second call
	if !taken {
		u.calls[name] = cancel
	}
	return ctx, func() {
		cancel(nil)
		u.mu.Lock()
		defer u.mu.Unlock()
		if !taken {
			delete(u.calls, name)
		}
	}
}

// cancel ends a call; a no-op where it is over or not of this server.
func (u *underWay) cancel(name string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if cancel := u.calls[name]; cancel != nil {
		cancel(tools.ErrGone)
	}
}

// headOfRPC reads what decides how a request is treated; a batch has nothing of it.
func headOfRPC(body []byte) rpcHead {
	var h rpcHead
	if json.Unmarshal(body, &h) != nil {
		return rpcHead{}
	}
	return h
}

// cancellable gives a client that begins a name, under which its calls can be cancelled, and cancels calls. It returns the context of the call under
// way.
func (s *Server) cancellable(ctx context.Context, w http.ResponseWriter, r *http.Request, body []byte) (_ context.Context, over func()) {
	switch h := headOfRPC(body); h.Method {
	case "initialize":
		w.Header().Set(sessionHeader, uuid.NewString())
	case "notifications/cancelled":
		s.underWay.cancel(callName(r, h.Params.RequestID))
	case "tools/call":
		return s.underWay.begin(ctx, callName(r, h.ID))
	}
	return ctx, func() {}
}
