package daemon

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"golang.org/x/sys/unix"

	"github.com/rolloutd/rolloutd/internal/clock"
	"github.com/rolloutd/rolloutd/internal/config"
	"github.com/rolloutd/rolloutd/internal/daemon/machine"
	"github.com/rolloutd/rolloutd/internal/daemon/tier"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/host/fleet"
	"github.com/rolloutd/rolloutd/internal/host/hostapi"
	"github.com/rolloutd/rolloutd/internal/seal"
	"github.com/rolloutd/rolloutd/internal/store"
	_ "github.com/rolloutd/rolloutd/internal/store/cloud" // buckets
)

// dataTier opens the data folder: the deployment's key and the store.
func (d *Daemon) dataTier() tier.Tier {
	return tier.Tier{Name: "data folder", Start: func(ctx context.Context, parts *tier.Parts) error {
		if err := os.MkdirAll(d.cfg.Data, 0o700); err != nil {
			return err
		}

		var err error
		if d.key, err = loadKey(d.cfg); err != nil {
			return err
		}

		d.measureDisk()

		if d.store, err = store.Open(ctx, d.cfg.StoreURL(), store.WithQuota(quota(d.cfg.Store))); err != nil {
			return fmt.Errorf("store.url (ROLLOUTD_STORE_URL): %w", err)
		}

		parts.OnClose(d.store.Close)

		if err := d.reachStore(ctx); err != nil {
			return fmt.Errorf("store.url (ROLLOUTD_STORE_URL): %w", err)
		}

		if err := d.checkKey(ctx); err != nil {
			return err
		}

		if d.roles.Serve || d.roles.Worker {
			parts.OnStop(d.watchStore().Stop)
		}

		return nil
	}}
}

// measureDisk exports the room of the disk that holds the data folder: traces, images and workspaces.
func (d *Daemon) measureDisk() {
	free := func() float64 {
		var fs unix.Statfs_t
		if err := unix.Statfs(d.cfg.Data, &fs); err != nil {
			return math.NaN()
		}

		return float64(fs.Bavail) * float64(fs.Bsize)
	}

	promauto.With(d.tel.Registry()).NewGaugeFunc(prometheus.GaugeOpts{
		Name: "rolloutd_data_free_bytes", Help: "Free bytes of the disk that holds the data folder.",
	}, free)
}

// watchStore shows whether the store is full.
func (d *Daemon) watchStore() tier.Part {
	d.room = newStoreWatch(d.store.Full, d.log, d.tel.Registry())
	d.health.problem.Store(d.room.Problem)

	return tier.Background(d.room.run)
}

const (
	// storeWait is how long the start waits for a bucket that does not answer, since whole deployments
	// often start at once.
	storeWait  = time.Minute
	storeRetry = time.Second
)

// reachStore checks the store. A problem that waiting does not solve ends the start at once. A full disk
// does not: it delays rollouts.
func (d *Daemon) reachStore(ctx context.Context) error {
	if !d.store.Remote() {
		if err := d.store.Check(ctx); fault.Is(err, fault.Unauthorized) {
			return err
		}

		return nil
	}

	ctx, cancel := context.WithTimeout(ctx, storeWait)
	defer cancel()

	for tries := 0; ; tries++ {
		err := d.store.Check(ctx)
		if !fault.Is(err, fault.Unavailable) {
			return err
		}

		if tries == 0 {
			d.log.Info("waiting for the store", "error", err)
		}

		if clock.Sleep(ctx, storeRetry) != nil {
			return err
		}
	}
}

// CheckStore checks that the configured store can be written to and read, and has room for rollouts. A
// store in a folder that does not exist is not created.
func CheckStore(ctx context.Context, c config.Config) error {
	if storeMissing(c) {
		return nil
	}

	s, err := OpenStore(ctx, c)
	if err != nil {
		return err
	}

	err = s.Check(ctx)
	if err == nil {
		err = s.Full(ctx)
	}

	return errors.Join(err, s.Close())
}

// OpenStore opens the store of the configuration. A store in a folder that does not exist is a fault.NotFound.
func OpenStore(ctx context.Context, c config.Config) (*store.Store, error) {
	if storeMissing(c) {
		return nil, fault.New(fault.NotFound,
			"there is no store in the folder %s: set --data, --config or ROLLOUTD_STORE_URL",
			c.StoreURL())
	}

	return store.Open(ctx, c.StoreURL(), store.WithQuota(quota(c.Store)))
}

// storeMissing reports whether the store is a folder that does not exist yet.
func storeMissing(c config.Config) bool {
	_, err := os.Stat(c.StoreURL())
	return !strings.Contains(c.StoreURL(), "://") && errors.Is(err, os.ErrNotExist)
}

// checkKey ends the start of a process whose key is not that of the store's deployment. A host also records
// it for the list of hosts. The first process of a deployment records its key; a store that is full does
// not keep it from starting.
func (d *Daemon) checkKey(ctx context.Context) error {
	// it uses no key
	if d.roles == (Roles{Model: true}) {
		return nil
	}

	if err := d.store.RecordKeyID(ctx, d.key.ID()); err != nil {
		d.log.WarnContext(ctx, "the id of the encryption key is not recorded in the store", "error", err)
	}

	// Checked after the record is written, so that of two first starts with different keys at most one passes.
	err := d.store.CheckKeyID(ctx, d.key.ID())
	if !fault.Is(err, fault.Unauthorized) {
		return err
	}

	if d.roles.Worker {
		err = errors.Join(err, d.announceRefusal(ctx, err))
	}

	return err
}

// announceRefusal writes a record of this host that says why it takes no work.
func (d *Daemon) announceRefusal(ctx context.Context, reason error) error {
	id, err := machine.HostID(d.cfg.HostIDFile(), d.cfg.Worker.Name)
	if err != nil {
		return err
	}

	now := time.Now().UTC()

	return hostapi.Announce(ctx, d.store, store.HostRecord{
		ID: id, StartedAt: now, KeyID: d.key.ID(),
		Status: fleet.Host{
			Name:      id,
			State:     fleet.Refused,
			Version:   Version,
			StartedAt: now,
			SeenAt:    now,
			Error:     reason.Error(),
		},
	})
}

// CheckKey compares the key of this machine with that of the deployment in the store, and describes it. It
// creates neither.
func CheckKey(ctx context.Context, c config.Config) (description string, err error) {
	key, err := deploymentKey(c)

	missing := errors.Is(err, os.ErrNotExist)
	if err != nil && !missing {
		return "", err
	}

	if storeMissing(c) {
		return "no deployment uses the store yet", nil
	}

	s, err := store.Open(ctx, c.StoreURL())
	if err != nil {
		return "", err
	}

	recorded, err := s.KeyID(ctx)
	switch {
	case fault.Is(err, fault.NotFound):
		description, err = "no deployment uses the store yet", nil
	case err == nil && missing:
		err = fault.New(
			fault.Unauthorized,
			"this machine has no encryption key, that of the deployment is %q: set ROLLOUTD_ENCRYPTION_KEY, "+
				"or copy its file \"key\" to the data folder",
			recorded,
		)
	case err == nil:
		description, err = fmt.Sprintf("%q, as the store records for the deployment", recorded), s.CheckKeyID(
			ctx,
			key.ID(),
		)
	}

	return description, errors.Join(err, s.Close())
}

func quota(c config.Store) store.Quota {
	return store.Quota{
		RolloutBytes: int64(c.RolloutMiB) << 20,
		MinFreeBytes: int64(c.MinFreeMiB) << 20,
		MaxBytes:     int64(c.MaxMiB) << 20,
	}
}

// loadKey returns the key of the configuration, or of the data folder's file, which it creates at the first start.
func loadKey(c config.Config) (seal.Key, error) {
	if c.EncryptionKey != "" {
		return seal.ParseKey(c.EncryptionKey)
	}

	return seal.LoadOrCreate(c.KeyFile())
}
