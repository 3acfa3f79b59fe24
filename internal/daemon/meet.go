package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/gateway"
	"github.com/rolloutd/rolloutd/internal/seal"
)

// meetTimeout is how long the gateway may take to answer when a worker starts.
const meetTimeout = 5 * time.Second

// meet has a worker not work beside a gateway that has another key: every rollout would fail. One that does not answer yet may come.
func meet(ctx context.Context, url string, key seal.Key, log *slog.Logger) error {
	ctx, cancel := context.WithTimeout(ctx, meetTimeout)
	defer cancel()
	_, err := gateway.NewClient(url, key).Routes(ctx)
	if fault.Is(err, fault.Unauthorized) {
		return fmt.Errorf("the gateway at %s has another key than this worker: give both the same data folder, or ROLLOUTD_ENCRYPTION_KEY: %w", url, err)
	}
	if err != nil {
		log.WarnContext(ctx, "the gateway does not answer yet; rollouts wait for it", "gateway", url, "error", err)
	}
	return nil
}
