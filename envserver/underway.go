package envserver

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"sync"

	"github.com/rolloutd/rolloutd/envserver/internal/access"
	"github.com/rolloutd/rolloutd/envserver/internal/tools"
)

// sessionHeader has the session id of an MCP client, which it gets from initialize. In an environment of
// interactive episodes it is the id of a session. Elsewhere the server keeps only the calls in progress
// under the id, so a client continues after a restart and on another replica.
const sessionHeader = "Mcp-Session-Id"

// callHead has the members that distinguish an MCP call from its cancellation, and the first request of a client.
type callHead struct {
	Method string          `json:"method"`
	ID     json.RawMessage `json:"id"`
	Params struct {
		RequestID       json.RawMessage `json:"requestId"`
		ProtocolVersion json.RawMessage `json:"protocolVersion"`
	} `json:"params"`
}

// cancelableCalls are the MCP calls in progress that can be canceled. It is safe for concurrent use.
type cancelableCalls struct {
	mu    sync.Mutex
	calls map[string]context.CancelCauseFunc
}

// callName returns the key of a call; "": its client has no session. Without a session, requests of several
// clients have the same ids.
func callName(r *http.Request, id json.RawMessage) string {
	session := r.Header.Get(sessionHeader)
	if session == "" || len(id) == 0 {
		return ""
	}

	return prefix(r, session) + string(id)
}

// prefix is the common prefix of the keys of a client's calls.
func prefix(r *http.Request, session string) string {
	return access.CallerOf(r.Context()).Name + "\x00" + session + "\x00"
}

// Begin returns the context of a call. A cancellation ends it with tools.ErrGone, as a disconnect of the client would.
func (u *cancelableCalls) Begin(ctx context.Context, name string) (_ context.Context, done func()) {
	if name == "" {
		return ctx, func() {}
	}

	ctx, cancel := context.WithCancelCause(ctx)

	u.mu.Lock()
	defer u.mu.Unlock()

	if u.calls == nil {
		u.calls = map[string]context.CancelCauseFunc{}
	}
	// a client that repeats an id cannot cancel the second call
	_, taken := u.calls[name]
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

// Cancel ends a call. It does nothing if the call has ended or runs on another server.
func (u *cancelableCalls) Cancel(name string) {
	u.mu.Lock()
	defer u.mu.Unlock()

	if cancel := u.calls[name]; cancel != nil {
		cancel(tools.ErrGone)
	}
}

// CancelAll ends every call of the client that makes the request.
func (u *cancelableCalls) CancelAll(r *http.Request) {
	all := prefix(r, r.Header.Get(sessionHeader))

	u.mu.Lock()
	defer u.mu.Unlock()

	for name, cancel := range u.calls {
		if strings.HasPrefix(name, all) {
			cancel(tools.ErrGone)
		}
	}
}

// readCallHead decodes the callHead of a request; that of a batch is empty.
func readCallHead(body []byte) callHead {
	var h callHead
	if json.Unmarshal(body, &h) != nil {
		return callHead{}
	}

	return h
}
