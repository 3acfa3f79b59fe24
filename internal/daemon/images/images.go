// Package images decides which OCI images tasks may use: those of this host, and those that it may pull.
package images

import (
	"context"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/rolloutd/rolloutd/internal/config"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/host"
	"github.com/rolloutd/rolloutd/internal/image"
)

// Open opens the images of this host.
func Open(c config.Config, log *slog.Logger) (*image.Store, error) {
	dir, err := filepath.Abs(c.ImagesDir())
	if err != nil {
		return nil, err
	}

	i := c.Sandbox.Images

	return image.Open(image.Options{
		Dir: dir, MaxBytes: int64(i.MaxGiB) << 30, MaxAge: i.MaxAge, Logger: log,
		Registries: image.Registries{Mirrors: i.Mirrors, Insecure: i.Insecure},
	})
}

// Host has the images of this host, and pulls those that tasks may use. It is safe for concurrent use.
type Host struct {
	store      *image.Store
	registries []string
	starts     *host.Starts

	// one pull at a time: forty sandboxes of a missing image pull it once
	pulling chan struct{}

	// by image, of pulls that found no room; of the holder of pulling
	lacks map[string]lack
}

// lack is why and when a pull found no room.
type lack struct {
	err error
	at  time.Time
}

// lackTime is for how long an image that found no room is not pulled again. Each pull would fill the disk again, for all
// that is on it, and keep other images waiting, and many rollouts may wait for that room.
const lackTime = time.Minute

// New makes a Host over the store. Tasks may pull images from these registries; a pull takes a slot of starts.
func New(store *image.Store, registries []string, starts *host.Starts) *Host {
	return &Host{
		store: store, registries: registries, starts: starts, pulling: make(chan struct{}, 1), lacks: map[string]lack{},
	}
}

// Use implements local.Images.
func (h *Host) Use(ctx context.Context, name string) (*image.Use, error) {
	use, err := h.store.Use(ctx, name)
	if !fault.Is(err, fault.NotFound) {
		return use, err
	}

	if err := mayPull(h.registries, name); err != nil {
		return nil, err
	}

	select {
	case h.pulling <- struct{}{}:
		defer func() { <-h.pulling }()
	case <-ctx.Done():
		return nil, fault.Wrap(fault.Unavailable, ctx.Err(), "wait to pull image %s", name)
	}

	if use, err = h.store.Use(ctx, name); !fault.Is(err, fault.NotFound) {
		return use, err
	}

	if err := h.pull(ctx, name); err != nil {
		return nil, err
	}

	return h.store.Use(ctx, name)
}

// pull pulls an image, unless it has found no room of late. The caller holds pulling.
func (h *Host) pull(ctx context.Context, name string) error {
	maps.DeleteFunc(h.lacks, func(_ string, l lack) bool { return time.Since(l.at) > lackTime })

	if l, ok := h.lacks[name]; ok {
		return l.err
	}

	release, err := h.starts.Acquire(ctx, host.StartImage)
	if err != nil {
		return err
	}
	defer release()

	_, err = h.store.Pull(ctx, name)
	if fault.Is(err, fault.Exhausted) {
		h.lacks[name] = lack{err, time.Now()}
	}

	return err
}

// MayPull returns a check that refuses images that tasks may not pull, for drivers that keep images elsewhere.
func MayPull(registries []string) func(name string) error {
	return func(name string) error { return mayPull(registries, name) }
}

// localRegistry is the registry in the names of images that are built of the folders of tasks.
const localRegistry = "localhost"

// mayPull refuses an image that this host does not have and that tasks may not pull.
func mayPull(registries []string, name string) error {
	registry, err := image.Registry(name)
	if err != nil {
		return err
	}

	if slices.Contains(registries, registry) {
		return nil
	}

	if registry == localRegistry {
		return fault.Field("image",
			"%q is not on this host; it is built of a task's folder, on the host of the worker: rolloutd tasks build SET, or rolloutd image build TASK/environment %[1]s",
			name)
	}

	return fault.Field("image",
		"%q is not on this host, and tasks may not pull from %s: run rolloutd image pull, or add the registry to sandbox.images.registries",
		name, registry)
}

const (
	// checkTime bounds the request to a registry when a rollout is submitted.
	checkTime = 10 * time.Second

	// rememberTime is for how long a registry is not asked again: it counts requests, and a batch of rollouts has the same
	// few images.
	rememberTime = time.Minute
	maxAnswers   = 1000
)

// Checker refuses images that no worker can have, before a rollout is queued. It is safe for concurrent use.
type Checker struct {
	config config.Config
	log    *slog.Logger

	// the worker is this process
	local bool

	mu sync.Mutex

	// answers of registries, by image
	answers map[string]answer
}

type answer struct {
	err   error
	until time.Time
}

// NewChecker makes a Checker. local says that the worker is this process.
func NewChecker(c config.Config, log *slog.Logger, local bool) *Checker {
	return &Checker{config: c, log: log, local: local, answers: map[string]answer{}}
}

// Check refuses an image that no worker can have. The worker decides if the registry does not answer, or if workers run
// on other hosts, whose images are not known here.
func (k *Checker) Check(name string) error {
	store, err := Open(k.config, k.log)
	if err != nil {
		return err
	}

	if _, err := store.Find(name); !fault.Is(err, fault.NotFound) {
		return err
	}

	if err := mayPull(k.config.Sandbox.Images.Registries, name); err != nil {
		if k.local {
			return err
		}

		_, err = image.ParseName(name)

		return err
	}

	k.mu.Lock()
	known, ok := k.answers[name]
	k.mu.Unlock()

	if ok && time.Now().Before(known.until) {
		return known.err
	}

	return k.askRegistry(store, name)
}

// askRegistry asks the image's registry, and remembers the answer, or that there was none.
func (k *Checker) askRegistry(store *image.Store, name string) error {
	ctx, cancel := context.WithTimeout(context.Background(), checkTime)
	defer cancel()

	err := store.Check(ctx, name)
	if !fault.Is(err, fault.Invalid) {
		err = nil
	}

	k.mu.Lock()
	defer k.mu.Unlock()

	if len(k.answers) >= maxAnswers {
		clear(k.answers)
	}

	k.answers[name] = answer{err: err, until: time.Now().Add(rememberTime)}

	return err
}
