package host

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/rolloutd/rolloutd/internal/agent"
	"github.com/rolloutd/rolloutd/internal/driver"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/sandbox"
)

// WarmBackend makes warm sandboxes with a backend that can hand them over.
type WarmBackend struct {
	*sandbox.Backend
	Agents *agent.Registry
	Lease  time.Duration
	// Prepare makes in a new sandbox what every process in it relies on.
	Prepare func(ctx context.Context, sb *sandbox.Sandbox) error
}

var _ WarmSandboxes = WarmBackend{}

// plainKey is the key of the agents that need no installation: any sandbox in which nothing was started is
// warm for them.
const plainKey = "plain"

// Key implements WarmSandboxes: the agent's name and its own key, or plainKey.
func (b WarmBackend) Key(a WarmAgent) string {
	kind, err := b.Agents.Get(a.Name)
	if err != nil {
		return ""
	}

	if kind.Installer() == nil {
		return plainKey
	}

	warmer, ok := kind.Agent.(agent.Warmer)
	if !ok {
		return ""
	}

	key := warmer.WarmKey(a.Job)
	if key == "" {
		return ""
	}

	return a.Name + "/" + key
}

// ListWarm implements WarmSandboxes.
func (b WarmBackend) ListWarm(ctx context.Context) (map[string]string, error) {
	infos, err := b.List(ctx)
	living := map[string]string{}

	for _, info := range infos {
		if info.Labels[driver.LabelPurpose] == driver.PurposeWarm {
			living[info.ID] = info.Labels[driver.LabelWarm]
		}
	}

	return living, err
}

// Start implements WarmSandboxes.
func (b WarmBackend) Start(ctx context.Context, id string, a WarmAgent) error {
	key := b.Key(a)

	warmer, err := b.warmer(key)
	if err != nil {
		return err
	}

	sb, err := b.CreateIdle(ctx, id, WarmLabels(key))
	if err != nil {
		return err
	}

	if err := sb.Renew(ctx, b.Lease); err != nil {
		return err
	}

	if err := b.Prepare(ctx, sb); err != nil {
		return err
	}

	if warmer == nil {
		return nil
	}

	serve := func(ctx context.Context, h http.Handler) error { return b.ServeModel(ctx, id, h, nil) }
	if err := warmer.Warm(ctx, agent.Env{Sandbox: sb}, a.Job, serve); err != nil {
		return fmt.Errorf("warm %s: %w", a.Name, err)
	}

	return nil
}

// Ready implements WarmSandboxes.
func (b WarmBackend) Ready(ctx context.Context, id, key string) (bool, error) {
	sb, err := b.AttachFor(ctx, id, b.Lease)
	if err != nil {
		return false, err
	}

	warmer, err := b.warmer(key)
	if err != nil {
		return false, err
	}

	if warmer == nil {
		// nothing runs in it that could be unready
		return true, nil
	}

	return warmer.Ready(ctx, agent.Env{Sandbox: sb})
}

// warmer is the agent of a key; nil for plainKey.
func (b WarmBackend) warmer(key string) (agent.Warmer, error) {
	if key == plainKey {
		return nil, nil
	}

	name, _, _ := strings.Cut(key, "/")

	kind, err := b.Agents.Get(name)
	if err != nil {
		return nil, err
	}

	warmer, ok := kind.Agent.(agent.Warmer)
	if !ok {
		return nil, fault.New(fault.Invalid, "agent %q cannot be started ahead of its job", name)
	}

	return warmer, nil
}
