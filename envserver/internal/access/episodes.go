package access

import (
	"context"
	"io"
	"sync"

	"github.com/rolloutd/rolloutd/internal/episode"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// Episodes is the edge's interface of the hosts' tool services. Ids are those of rollouts. A rollout that
// no longer accepts calls is a fault.Conflict.
type Episodes interface {
	// Ready waits until the rollout accepts calls.
	Ready(ctx context.Context, id string) (episode.Status, error)
	// Status does not wait: an episode that does not take calls now is a fault.Unavailable.
	Status(ctx context.Context, id string) (episode.Status, error)
	// Call makes a call. A call of one ID runs once, also when the request is repeated after a failure.
	Call(ctx context.Context, id string, c episode.Call) (episode.Answer, error)
	// Submit ends the episode, which is then graded.
	Submit(ctx context.Context, id string, c episode.Call) error
	// Join makes client the one client whose calls are accepted.
	Join(ctx context.Context, id, client string) (episode.Status, error)
	// List lists at most limit entries of a folder; more reports whether there are others.
	List(
		ctx context.Context,
		id, path string,
		recursive bool,
		limit int,
	) (entries []episode.Entry, more bool, err error)
	// Tar streams a file or folder; the caller closes it.
	Tar(ctx context.Context, id, path string) (io.ReadCloser, error)
	// Score grades a rollout whose verifier is external; fault.Conflict when it awaits no score.
	Score(ctx context.Context, id string, s rollout.Score) error
}

// NewOwnedEpisodes limits each caller to the episodes of its own rollouts; owners returns the owner of a rollout.
func NewOwnedEpisodes(all Episodes, owners Rollouts) Episodes {
	return &ownedEpisodes{all: all, owned: owned{all: owners}, cache: map[ownership]bool{}}
}

// ownedEpisodes caches its checks: a rollout never changes its owner.
type ownedEpisodes struct {
	all   Episodes
	owned owned

	mu    sync.Mutex
	cache map[ownership]bool
}

type ownership struct{ caller, rollout string }

// maxKnown bounds the cache; a full cache is cleared.
const maxKnown = 10_000

func (o *ownedEpisodes) check(ctx context.Context, id string) error {
	key := ownership{CallerOf(ctx).Name, id}

	o.mu.Lock()
	known := o.cache[key]
	o.mu.Unlock()

	if known {
		return nil
	}

	if err := o.owned.check(ctx, id); err != nil {
		return err
	}

	o.mu.Lock()
	defer o.mu.Unlock()

	if len(o.cache) >= maxKnown {
		clear(o.cache)
	}

	o.cache[key] = true

	return nil
}

func (o *ownedEpisodes) Ready(ctx context.Context, id string) (episode.Status, error) {
	if err := o.check(ctx, id); err != nil {
		return episode.Status{}, err
	}

	return o.all.Ready(ctx, id)
}

func (o *ownedEpisodes) Status(ctx context.Context, id string) (episode.Status, error) {
	if err := o.check(ctx, id); err != nil {
		return episode.Status{}, err
	}

	return o.all.Status(ctx, id)
}

func (o *ownedEpisodes) Call(ctx context.Context, id string, c episode.Call) (episode.Answer, error) {
	if err := o.check(ctx, id); err != nil {
		return episode.Answer{}, err
	}

	return o.all.Call(ctx, id, c)
}

func (o *ownedEpisodes) Submit(ctx context.Context, id string, c episode.Call) error {
	if err := o.check(ctx, id); err != nil {
		return err
	}

	return o.all.Submit(ctx, id, c)
}

func (o *ownedEpisodes) Join(ctx context.Context, id, client string) (episode.Status, error) {
	if err := o.check(ctx, id); err != nil {
		return episode.Status{}, err
	}

	return o.all.Join(ctx, id, client)
}

func (o *ownedEpisodes) List(
	ctx context.Context,
	id, path string,
	recursive bool,
	limit int,
) ([]episode.Entry, bool, error) {
	if err := o.check(ctx, id); err != nil {
		return nil, false, err
	}

	return o.all.List(ctx, id, path, recursive, limit)
}

func (o *ownedEpisodes) Tar(ctx context.Context, id, path string) (io.ReadCloser, error) {
	if err := o.check(ctx, id); err != nil {
		return nil, err
	}

	return o.all.Tar(ctx, id, path)
}

func (o *ownedEpisodes) Score(ctx context.Context, id string, s rollout.Score) error {
	if err := o.check(ctx, id); err != nil {
		return err
	}

	return o.all.Score(ctx, id, s)
}
