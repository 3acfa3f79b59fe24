package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

// remoteError returns the error that sandboxd sent, with its kind.
func remoteError(res *http.Response) error {
	body, _ := io.ReadAll(io.LimitReader(res.Body, 64<<10))

	var e wire.Error
	if err := json.Unmarshal(body, &e); err != nil || e.Kind == "" {
		return fault.New(fault.Internal, "sandboxd answered %s: %.200q", res.Status, body)
	}

	return fault.New(fault.Kind(e.Kind), "%s", e.Message)
}

// broken classifies a failed exchange. A broken connection may be a brief network failure, so the sandbox
// is lost only if the driver cannot reach it either. After an exchange without progress (errSilent) the
// sandbox is probed, and destroyed if it does not answer.
func (s *Sandbox) broken(ctx context.Context, c call, err error) error {
	if errors.Is(err, errSilent) && ctx.Err() == nil {
		return s.endSilent(ctx, c)
	}

	err = fault.Wrap(s.kindOfBreak(ctx, err), err, "sandbox %q: %s %s", s.id, c.method, c.path)

	return contextual(ctx, err)
}

func (s *Sandbox) kindOfBreak(ctx context.Context, err error) fault.Kind {
	var known *fault.Error
	switch {
	case ctx.Err() != nil:
		return fault.Unavailable
	case errors.As(err, &known):
		return known.Kind
	case s.backend.isGone(ctx, s.id):
		return fault.SandboxLost
	default:
		return fault.Unavailable
	}
}

func (b *Backend) isGone(ctx context.Context, id string) bool {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()

	conn, err := b.driver.Dial(ctx, id)
	if err == nil {
		_ = conn.Close()
	}

	return fault.Is(err, fault.SandboxLost)
}

// contextual keeps a canceled or expired context from counting as a failure of the sandbox.
func contextual(ctx context.Context, err error) error {
	if err == nil || ctx.Err() == nil || fault.Is(err, fault.Unavailable) && errors.Is(err, ctx.Err()) {
		return err
	}

	return &fault.Error{Kind: fault.Unavailable, Msg: err.Error(), Err: ctx.Err()}
}
