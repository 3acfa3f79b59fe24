package gatewayapi

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/rolloutd/rolloutd/internal/network/lostconn"
	"github.com/rolloutd/rolloutd/internal/seal"
)

// TrainerToken returns a deployment's own token of the trainer API.
func TrainerToken(key seal.Key) string { return key.Token(trainerPurpose) }

// Trainer is a client of a gateway's trainer API. Its errors are those of a Client.
type Trainer struct{ caller }

// NewTrainer makes a client of the trainer API at baseURL (no path).
func NewTrainer(baseURL, token string) *Trainer {
	return &Trainer{newCaller(baseURL, token, &http.Transport{
		DialContext:         lostconn.Dialer(dialTimeout).DialContext,
		MaxIdleConnsPerHost: 64,
	})}
}

// Upstream returns the status of an upstream; its name is that of rollout.Model.Upstream.
func (t *Trainer) Upstream(ctx context.Context, name string) (UpstreamStatus, error) {
	return t.upstream(ctx, http.MethodGet, name, "", nil)
}

// Pause stops new calls to the upstream for that time, or until Resume. Calls in flight continue.
func (t *Trainer) Pause(ctx context.Context, name string, hold time.Duration) (UpstreamStatus, error) {
	return t.upstream(ctx, http.MethodPost, name, "/pause", PauseRequest{ForS: hold.Seconds()})
}

// Drain is Pause, and waits for the calls in flight. If they take longer than wait, abort cancels them, and
// they are made again after the pause. Without abort the error is a fault.Timeout, and the pause stays.
func (t *Trainer) Drain(
	ctx context.Context,
	name string,
	hold, wait time.Duration,
	abort bool,
) (UpstreamStatus, error) {
	return t.upstream(ctx, http.MethodPost, name, "/drain", PauseRequest{hold.Seconds(), wait.Seconds(), abort})
}

// Resume ends a pause; without one it is a no-op. version names the endpoint's new weights; "": unchanged.
func (t *Trainer) Resume(ctx context.Context, name, version string) (UpstreamStatus, error) {
	return t.upstream(ctx, http.MethodPost, name, "/resume", ResumeRequest{version})
}

func (t *Trainer) upstream(ctx context.Context, method, name, what string, in any) (UpstreamStatus, error) {
	var s UpstreamStatus

	err := t.do(ctx, method, "/upstreams/"+url.PathEscape(name)+what, in, &s)

	return s, err
}
