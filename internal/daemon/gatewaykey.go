package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/gateway/gatewayapi"
	"github.com/rolloutd/rolloutd/internal/seal"
)

// gatewayKeyTimeout bounds the request to the gateway at the start of a worker.
const gatewayKeyTimeout = 5 * time.Second

// checkGatewayKey fails if the gateway has another key, since every rollout would fail. A gateway that does
// not answer may start later.
func checkGatewayKey(ctx context.Context, url string, key seal.Key, log *slog.Logger) error {
	ctx, cancel := context.WithTimeout(ctx, gatewayKeyTimeout)
	defer cancel()

	_, err := gatewayapi.NewClient(url, key).Routes(ctx)
	if fault.Is(err, fault.Unauthorized) {
		return fmt.Errorf(
			"the gateway at %s has another key than this worker: set the same data folder or ROLLOUTD_ENCRYPTION_KEY for both: %w",
			url,
			err,
		)
	}

	if err != nil {
		log.WarnContext(ctx, "the gateway does not answer yet; rollouts wait for it", "gateway", url, "error", err)
	}

	return nil
}
