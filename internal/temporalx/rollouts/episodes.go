package rollouts

import (
	"context"
	"io"
	"net/http"
	"sync"
	"time"

	enumspb "go.temporal.io/api/enums/v1"

	"github.com/rolloutd/rolloutd/internal/clock"
	"github.com/rolloutd/rolloutd/internal/episode"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/host/hostapi"
	"github.com/rolloutd/rolloutd/internal/network/lostconn"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

const (
	// dialTimeout bounds the opening of a connection to a host.
	dialTimeout = 10 * time.Second
	// openWait is how long one request waits at the host for an episode that is being opened.
	openWait = 2 * time.Second
	// firstPause and lastPause bound the pause between two requests to the host of an episode.
	firstPause, lastPause = 5 * time.Millisecond, time.Second
	// maxPlaces bounds the cached places of sandboxes; beyond it the cache is cleared.
	maxPlaces = 10_000
)

// Episodes calls the tool service of the host that has a rollout's sandbox. It repeats a request to a host
// that does not answer, whose worker may be restarting, until the rollout or the caller's context has
// ended. It is safe for concurrent use.
type Episodes struct {
	client *Client
	token  string
	http   *http.Client

	mu sync.Mutex

	// by rollout
	places map[string]servicePlace
}

// servicePlace is where a sandbox takes calls.
type servicePlace struct {
	service *episode.Client
	sandbox string
}

// NewEpisodes makes an Episodes. token is the token of the tool services.
func NewEpisodes(c *Client, token string) *Episodes {
	return &Episodes{
		client: c, token: token, places: map[string]servicePlace{},
		http: &http.Client{Transport: &http.Transport{
			DialContext:         lostconn.Dialer(dialTimeout).DialContext,
			MaxIdleConnsPerHost: 256,
			IdleConnTimeout:     time.Minute,
		}},
	}
}

// Ready waits until the episode takes calls, and returns its status. An episode that takes no more calls is
// a fault.Conflict.
func (e *Episodes) Ready(ctx context.Context, id string) (episode.Status, error) {
	return at(ctx, e, id, func(p servicePlace) (episode.Status, error) {
		return p.service.Status(ctx, p.sandbox, openWait)
	})
}

// Status returns the status of an episode that takes calls, without a wait for one that does not, or whose host does not
// answer: both are a fault.Unavailable.
func (e *Episodes) Status(ctx context.Context, id string) (episode.Status, error) {
	p, err := e.place(ctx, id)
	if err != nil {
		return episode.Status{}, err
	}

	s, err := p.service.Status(ctx, p.sandbox, 0)
	if fault.Is(err, fault.Unavailable) {
		e.forget(id)
	}

	return s, err
}

// Call makes a call in the episode; it runs once by its ID.
func (e *Episodes) Call(ctx context.Context, id string, c episode.Call) (episode.Answer, error) {
	return at(ctx, e, id, func(p servicePlace) (episode.Answer, error) { return p.service.Call(ctx, p.sandbox, c) })
}

// Submit ends the episode on its client's behalf.
func (e *Episodes) Submit(ctx context.Context, id string, c episode.Call) error {
	_, err := at(ctx, e, id, func(p servicePlace) (struct{}, error) {
		return struct{}{}, p.service.Submit(ctx, p.sandbox, c)
	})

	return err
}

// Join makes client the only client whose calls are taken.
func (e *Episodes) Join(ctx context.Context, id, client string) (episode.Status, error) {
	return at(ctx, e, id, func(p servicePlace) (episode.Status, error) {
		return p.service.Join(ctx, p.sandbox, client)
	})
}

// List lists a folder of the episode's sandbox.
func (e *Episodes) List(
	ctx context.Context,
	id, path string,
	recursive bool,
	limit int,
) (entries []episode.Entry, more bool, err error) {
	_, err = at(ctx, e, id, func(p servicePlace) (_ struct{}, err error) {
		entries, more, err = p.service.List(ctx, p.sandbox, path, recursive, limit)
		return struct{}{}, err
	})

	return entries, more, err
}

// Tar streams a file or folder of the episode's sandbox; the caller closes it.
func (e *Episodes) Tar(ctx context.Context, id, path string) (io.ReadCloser, error) {
	return at(ctx, e, id, func(p servicePlace) (io.ReadCloser, error) { return p.service.Tar(ctx, p.sandbox, path) })
}

// at calls the host of a rollout, until it answers or the rollout has ended.
func at[T any](ctx context.Context, e *Episodes, id string, call func(servicePlace) (T, error)) (answer T, err error) {
	for wait := firstPause; ; wait = min(2*wait, lastPause) {
		var p servicePlace
		if p, err = e.place(ctx, id); err == nil {
			if answer, err = call(p); !fault.Is(err, fault.Unavailable) {
				return answer, err
			}

			e.forget(id)
		} else if !fault.Is(err, fault.Unavailable) {
			return answer, err
		}

		_ = clock.Sleep(ctx, wait)
		if ctx.Err() != nil {
			return answer, fault.Wrap(fault.Timeout, context.Cause(ctx), "the episode's host does not answer (%v)", err)
		}
	}
}

// place finds the host of a rollout. The error is a fault.Unavailable while there is none, and a
// fault.Conflict when the rollout takes no more calls.
func (e *Episodes) place(ctx context.Context, id string) (servicePlace, error) {
	if p, known := e.cachedPlace(id); known {
		return p, nil
	}

	s, err := e.client.State(ctx, id)
	if err != nil {
		return servicePlace{}, err
	}

	if err := takesCalls(s); err != nil {
		return servicePlace{}, err
	}

	made := rollout.Created{Host: s.Host, SandboxID: s.SandboxID}
	if made.Host == "" || made.SandboxID == "" {
		if made, err = e.awaitSandbox(ctx, id, s.Attempt); err != nil {
			return servicePlace{}, err
		}
	}

	return e.remember(ctx, id, made)
}

func (e *Episodes) cachedPlace(id string) (servicePlace, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()

	p, known := e.places[id]

	return p, known
}

// remember caches the place of a rollout's sandbox.
func (e *Episodes) remember(ctx context.Context, id string, made rollout.Created) (servicePlace, error) {
	h, err := e.client.store.Host(ctx, made.Host)
	if err == nil {
		err = hostapi.Reachable(h, h.ToolsURL)
	}

	if err != nil {
		return servicePlace{}, fault.Wrap(fault.Unavailable, err, "host %s of rollout %q", made.Host, id)
	}

	p := servicePlace{service: episode.NewClient(h.ToolsURL, e.token, e.http), sandbox: made.SandboxID}
	e.mu.Lock()
	defer e.mu.Unlock()

	if len(e.places) >= maxPlaces {
		clear(e.places)
	}

	e.places[id] = p

	return p, nil
}

func (e *Episodes) forget(id string) {
	e.mu.Lock()
	defer e.mu.Unlock()

	delete(e.places, id)
}

// awaitSandbox waits until the sandbox of an attempt exists, for openWait at most; after that the error is
// a fault.Unavailable. It follows the workflow's history. A query would be answered by the worker that has
// to continue the rollout, and delay it.
func (e *Episodes) awaitSandbox(ctx context.Context, id string, attempt int) (made rollout.Created, err error) {
	// no deadline; see untilClosed
	reading, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, cancel)()
	defer time.AfterFunc(openWait, cancel).Stop()
	// the event that schedules CreateSandbox of the attempt
	var scheduled int64

	all := e.client.temporal.GetWorkflowHistory(
		reading,
		rollout.WorkflowID(id),
		"",
		true,
		enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT,
	)
	for left := max(attempt, 1); all.HasNext(); {
		event, err := all.Next()
		if err != nil {
			return made, classify(err, "read the events of rollout %q", id)
		}

		if event.GetActivityTaskScheduledEventAttributes().GetActivityType().GetName() == rollout.ActivityCreate {
			if left--; left == 0 {
				scheduled = event.GetEventId()
			}
		}

		if done := event.GetActivityTaskCompletedEventAttributes(); done != nil &&
			done.GetScheduledEventId() == scheduled {
			err := e.client.payloads.FromPayloads(done.GetResult(), &made)
			return made, fault.Wrap(fault.Internal, err, "place of rollout %q", id)
		}
	}

	return made, fault.New(fault.Unavailable, "rollout %q has no sandbox yet", id)
}

// takesCalls refuses a rollout that takes no more calls.
func takesCalls(s rollout.State) error {
	switch s.Phase {
	case rollout.PhaseVerifying, rollout.PhaseCollecting, rollout.PhaseClosing:
		return fault.New(fault.Conflict, "the episode has ended: the rollout is %s", s.Phase)
	case rollout.PhaseDone:
		why := string(s.Outcome)
		if s.Error != "" {
			why += ": " + s.Error
		}

		return fault.New(fault.Conflict, "the episode has ended: %s", why)
	}

	return nil
}

// Score grades a rollout whose verifier is external.
func (e *Episodes) Score(ctx context.Context, id string, s rollout.Score) error {
	return e.client.Score(ctx, id, s)
}
