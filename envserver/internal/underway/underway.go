// Package underway keeps the calls of MCP proper that can be cancelled.
package underway

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"sync"

	"github.com/rolloutd/rolloutd/envserver/internal/access"
	"github.com/rolloutd/rolloutd/envserver/internal/tools"
)

// SessionHeader names a client of MCP proper from its initialize on. In an environment of interactive episodes it is the id of a session. Elsewhere
// the server keeps nothing under the name but the calls that are under way, so a client goes on after a restart and on another replica.
const SessionHeader = "Mcp-Session-Id"

// Head is what tells a request of MCP proper from a cancellation of one.
type Head struct {
	Method string          `json:"method"`
	ID     json.RawMessage `json:"id"`
	Params struct {
		RequestID json.RawMessage `json:"requestId"`
	} `json:"params"`
}

// Calls are the calls of MCP proper that can be cancelled. It is safe for concurrent use.
type Calls struct {
	mu    sync.Mutex
	calls map[string]context.CancelCauseFunc
}

// Name names a call; "" where its client has no session, for requests of several clients have the same ids.
func Name(r *http.Request, id json.RawMessage) string {
	session := r.Header.Get(SessionHeader)
	if session == "" || len(id) == 0 {
		return ""
	}
	return prefix(r, session) + string(id)
}

// prefix begins the names of all calls of a client.
func prefix(r *http.Request, session string) string {
	return access.CallerOf(r.Context()).Name + "\x00" + session + "\x00"
}

// Begin returns the context of a call, which a cancellation ends as its client's leaving would; see Table.left.
func (u *Calls) Begin(ctx context.Context, name string) (_ context.Context, over func()) {
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

// Cancel ends a call; a no-op where it is over or not of this server.
func (u *Calls) Cancel(name string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if cancel := u.calls[name]; cancel != nil {
		cancel(tools.ErrGone)
	}
}

// CancelAll ends every call of the client that makes the request.
func (u *Calls) CancelAll(r *http.Request) {
	all := prefix(r, r.Header.Get(SessionHeader))
	u.mu.Lock()
	defer u.mu.Unlock()
	for name, cancel := range u.calls {
		if strings.HasPrefix(name, all) {
			cancel(tools.ErrGone)
		}
	}
}

// HeadOf reads what decides how a request is treated; a batch has nothing of it.
func HeadOf(body []byte) Head {
	var h Head
	if json.Unmarshal(body, &h) != nil {
		return Head{}
	}
	return h
}
