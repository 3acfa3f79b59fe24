package upstream

import (
	"context"
	"net/http"
	"time"

	"github.com/rolloutd/rolloutd/internal/gateway/dialect"
	"github.com/rolloutd/rolloutd/internal/gateway/dialect/reply"
	"github.com/rolloutd/rolloutd/internal/rawjson"
)

// infoTime bounds the request that finds out whether an engine is SGLang; the engine answers it from memory.
const infoTime = 10 * time.Second

// wantsGenerate reports whether to repeat a call by SGLang's /generate: the call must return token ids, its
// reply has none, and the engine is SGLang. The first reply of such an engine is dropped before the agent
// has seen it.
func (u *Client) wantsGenerate(ctx context.Context, t *target, a *dialect.Request, res *Result) bool {
	if res.Problem != nil || !a.NeedsIDs || a.API != reply.Completions || len(res.Reply.TokenIDs) > 0 ||
		t.live.HasSent() ||
		!takesGenerate(a) {
		return false
	}

	ctx, cancel := context.WithTimeout(ctx, infoTime)
	defer cancel()

	for _, path := range generateInfoPaths() {
		if info, release, err := u.postRequest(ctx, t.at(path), &dialect.Request{Dialect: a.Dialect}); err == nil {
			defer release()
			return len(rawjson.MemberOf(info, "model_path")) > 0
		}
	}

	return false
}

// takesGenerate reports whether a call is a completion that /generate can serve and that was not made by it.
func takesGenerate(a *dialect.Request) bool {
	return a.API == reply.Completions && !a.ByGenerate && generateTakes(a.Body)
}

// wire returns the target and body of the request for a call.
func (t *target) wire(a *dialect.Request) (*target, []byte, error) {
	body, err := a.Wire()
	if err != nil || !a.ByGenerate {
		return t, body, err
	}

	body, err = generateRequest(body)

	return t.at(generatePath), body, err
}

// lacksGenerate reports that the engine no longer has /generate, because another engine was started at its address.
func lacksGenerate(a *dialect.Request, res *Result) bool {
	return a.ByGenerate && (res.Status == http.StatusNotFound || res.Status == http.StatusMethodNotAllowed)
}
