package daemon

import (
	"context"
	"fmt"
	"os"

	"github.com/rolloutd/rolloutd/internal/config"
	"github.com/rolloutd/rolloutd/internal/daemon/tier"
	"github.com/rolloutd/rolloutd/internal/seal"
	"github.com/rolloutd/rolloutd/internal/store"
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
		return tier.Running{Stop: func(context.Context) error { return d.store.Close() }}, nil
	}}
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
