package executor

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/rolloutd/rolloutd/envserver/internal/access"
	"github.com/rolloutd/rolloutd/envserver/internal/httpio"
	"github.com/rolloutd/rolloutd/internal/episode"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/input/jsoninput"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// maxOpen bounds the cache of trajectories; a full cache is cleared.
const maxOpen = 10_000

// episodeSeconds is how long the episode of a trajectory may take.
const episodeSeconds = 24 * 3600

// key returns the key of a caller's trajectory.
func key(ctx context.Context, trajectory string) string {
	sum := sha256.Sum256([]byte(access.CallerOf(ctx).Name + "\x00" + trajectory))
	return hex.EncodeToString(sum[:])
}

// open returns the rollout of a trajectory: the rollout of that id, or the trajectory's own, which it
// starts if there is none.
func (a *API) open(ctx context.Context, trajectory string) (string, error) {
	id, found, err := a.find(ctx, trajectory)
	if err != nil || found {
		return id, err
	}

	_, _, err = a.Table.StartEpisode(access.ForTrajectory(ctx), nil, map[string]any{
		"rollout_id": id, "agent_timeout_s": json.Number(strconv.Itoa(episodeSeconds)),
		"episode": map[string]any{"enabled_toolsets": []any{"all"}, "idle_s": json.Number("3600")},
	})
	if err != nil {
		return "", err
	}

	a.remember(key(ctx, trajectory), id)

	return id, nil
}

// active returns the rollout of a trajectory; errNoSlot: it has none.
func (a *API) active(ctx context.Context, trajectory string) (string, error) {
	id, found, err := a.find(ctx, trajectory)
	if err == nil && !found {
		return "", errNoSlot
	}

	return id, err
}

// within calls do with the rollout of a trajectory. If the remembered one has ended, another replica may have
// released the trajectory since: then it looks again, and calls do with the next one.
func (a *API) within(
	ctx context.Context,
	trajectory, id string,
	look func(ctx context.Context, trajectory string) (string, error),
	do func(id string) error,
) error {
	ended := do(id)
	if !fault.Is(ended, fault.Conflict) {
		return ended
	}

	a.forget(key(ctx, trajectory))

	next, err := look(ctx, trajectory)
	switch {
	case err != nil:
		return err
	case next == id:
		return ended
	default:
		return do(next)
	}
}

// find looks for the rollout of a trajectory, and returns the id that it has or will have.
func (a *API) find(ctx context.Context, trajectory string) (id string, found bool, err error) {
	k := key(ctx, trajectory)

	a.mu.Lock()
	id, found = a.rolloutIDs[k]
	a.mu.Unlock()

	if found {
		return id, true, nil
	}

	if rollout.CheckID(trajectory) == nil {
		if _, err := a.Rollouts.State(ctx, trajectory); err == nil {
			a.remember(k, trajectory)
			return trajectory, true, nil
		} else if !fault.Is(err, fault.NotFound) {
			return "", false, err
		}
	}

	generation, err := a.generation(ctx, k)
	if err != nil {
		return "", false, err
	}

	id = "trajectory-" + k[:32] + "-" + strconv.Itoa(generation)

	_, err = a.Rollouts.State(ctx, id)
	switch {
	case err == nil:
		a.remember(k, id)
		return id, true, nil
	case fault.Is(err, fault.NotFound):
		return id, false, nil
	default:
		return "", false, err
	}
}

func (a *API) remember(k, id string) {
	a.mu.Lock()
	defer a.mu.Unlock()

	if a.rolloutIDs == nil || len(a.rolloutIDs) >= maxOpen {
		a.rolloutIDs = map[string]string{}
	}

	a.rolloutIDs[k] = id
}

func (a *API) forget(k string) {
	a.mu.Lock()
	defer a.mu.Unlock()

	delete(a.rolloutIDs, k)
}

// generation is the number of releases of the trajectory. After each release the next call begins another episode.
func (a *API) generation(ctx context.Context, k string) (int, error) {
	if a.Keeper == nil {
		a.mu.Lock()
		defer a.mu.Unlock()

		return a.generations[k], nil
	}

	data, err := a.Keeper.Load(ctx, "trajectory-"+k)
	if fault.Is(err, fault.NotFound) {
		return 0, nil
	}

	if err != nil {
		return 0, err
	}

	n, err := strconv.Atoi(string(data))

	return n, fault.Wrap(fault.Internal, err, "generation of a trajectory")
}

func (a *API) advance(ctx context.Context, k string) error {
	n, err := a.generation(ctx, k)
	if err != nil {
		return err
	}

	a.forget(k)

	if a.Keeper != nil {
		return a.Keeper.Save(ctx, "trajectory-"+k, []byte(strconv.Itoa(n+1)))
	}

	a.mu.Lock()
	defer a.mu.Unlock()

	if a.generations == nil {
		a.generations = map[string]int{}
	}

	a.generations[k] = n + 1

	return nil
}

// releasePost ends the episode of a trajectory. A trajectory without an episode is not an error.
func (a *API) releasePost(w http.ResponseWriter, r *http.Request) {
	in, ok := read[struct {
		TrajectoryID string `json:"trajectory_id"`
	}](a, w, r)
	if !ok {
		return
	}

	if err := a.release(r.Context(), in.TrajectoryID); err != nil {
		httpio.WriteRefusal(w, err)
		return
	}

	httpio.WriteJSON(w, http.StatusOK, map[string]string{"status": "ok"})
}

func (a *API) release(ctx context.Context, trajectory string) error {
	// another replica may have released it since
	a.forget(key(ctx, trajectory))

	id, found, err := a.find(ctx, trajectory)
	if err != nil || !found {
		return err
	}

	err = a.Episodes.Submit(ctx, id, episode.Call{})
	// a conflict: it has ended already
	if err != nil && !fault.Is(err, fault.Conflict) {
		return err
	}

	if id == trajectory {
		// a rollout of its own, which ends once
		return nil
	}

	return a.advance(ctx, key(ctx, trajectory))
}

// requestLimits bounds the decoded size of a request.
func requestLimits() jsoninput.Limits {
	return jsoninput.Limits{Bytes: 16 << 20, Elements: 100_000, Depth: 70}
}

func decode(data []byte, into any) error {
	err := json.NewDecoder(jsoninput.NewReader(bytes.NewReader(data), requestLimits())).Decode(into)
	return jsoninput.ExplainError("request body", err)
}
