package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/rolloutd/rolloutd/internal/config"
	"github.com/rolloutd/rolloutd/internal/daemon/tier"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/seal"
	"github.com/rolloutd/rolloutd/internal/store"
	_ "github.com/rolloutd/rolloutd/internal/store/cloud" // buckets
)

// dataTier opens the data folder: the deployment's key and the store.
func (d *Daemon) dataTier() tier.Tier {
	return tier.Tier{Name: "data folder", Start: func(ctx context.Context) (tier.Running, error) {
		if err := os.MkdirAll(d.cfg.Data, 0o700); err != nil {
			return tier.Running{}, err
		}
		var err error
		if d.key, err = loadKey(d.cfg); err != nil {
			return tier.Running{}, err
		}
		if d.store, err = store.Open(ctx, d.cfg.StoreURL(), store.WithQuota(quota(d.cfg.Store))); err != nil {
			return tier.Running{}, fmt.Errorf("store.url (ROLLOUTD_STORE_URL): %w", err)
		}
		if err := d.reachStore(ctx); err != nil {
			return tier.Running{}, errors.Join(fmt.Errorf("store.url (ROLLOUTD_STORE_URL): %w", err), d.store.Close())
		}
		return tier.Running{Stop: func(context.Context) error { return d.store.Close() }}, nil
	}}
}

const (
	// storeWait is how long the start waits for a bucket that does not answer, since whole deployments often start at once.
	storeWait  = time.Minute
	storeRetry = time.Second
)

// reachStore checks the store. A problem that waiting does not solve ends the start at once. A full disk does not: it delays rollouts.
func (d *Daemon) reachStore(ctx context.Context) error {
	if !d.store.Remote() {
		if err := d.store.Check(ctx); fault.Is(err, fault.Unauthorized) {
			return err
		}
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, storeWait)
	defer cancel()
	tick := time.NewTicker(storeRetry)
	defer tick.Stop()
	for tries := 0; ; tries++ {
		err := d.store.Check(ctx)
		if !fault.Is(err, fault.Unavailable) {
			return err
		}
		if tries == 0 {
			d.log.Info("waiting for the store", "error", err)
		}
		select {
		case <-ctx.Done():
			return err
		case <-tick.C:
		}
	}
}

// CheckStore checks that the configured store can be written to and read.
func CheckStore(ctx context.Context, c config.Config) error {
	s, err := store.Open(ctx, c.StoreURL())
	if err != nil {
		return err
	}
	return errors.Join(s.Check(ctx), s.Close())
}

func quota(c config.Store) store.Quota {
	return store.Quota{
		RolloutBytes: int64(c.RolloutMiB) << 20, MinFreeBytes: int64(c.MinFreeMiB) << 20, MaxBytes: int64(c.MaxMiB) << 20,
	}
}

// loadKey returns the key of the configuration, or of the data folder's file, which it creates at the first start.
func loadKey(c config.Config) (seal.Key, error) {
	if c.EncryptionKey != "" {
		return seal.ParseKey(c.EncryptionKey)
	}
	return seal.LoadOrCreate(c.KeyFile())
}
