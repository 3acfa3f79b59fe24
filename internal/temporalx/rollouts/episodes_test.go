package rollouts_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/converter"

	"github.com/rolloutd/rolloutd/internal/episode"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/host/hostapi"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/store"
	"github.com/rolloutd/rolloutd/internal/temporalx/rollouts"
)

// toolService starts a host whose sandbox with that id takes calls.
func toolService(t *testing.T, st *store.Store, host, sandbox string) {
	t.Helper()

	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/episodes/"+sandbox {
			w.WriteHeader(http.StatusServiceUnavailable)
			_ = json.NewEncoder(w).Encode(episode.Failure{Kind: fault.Unavailable, Message: "takes no calls"})

			return
		}

		_ = json.NewEncoder(w).Encode(episode.Status{Steps: 3})
	}))
	t.Cleanup(srv.Close)
	require.NoError(t, hostapi.Announce(t.Context(), st, store.HostRecord{ID: host, ToolsURL: srv.URL}))
}

// created returns the events of CreateSandbox, starting at id.
func created(t *testing.T, id int64, made rollout.Created) []*historypb.HistoryEvent {
	t.Helper()

	result, err := converter.GetDefaultDataConverter().ToPayloads(made)
	require.NoError(t, err)

	return []*historypb.HistoryEvent{
		{
			EventId: id,
			Attributes: &historypb.HistoryEvent_ActivityTaskScheduledEventAttributes{
				ActivityTaskScheduledEventAttributes: &historypb.ActivityTaskScheduledEventAttributes{
					ActivityType: &commonpb.ActivityType{Name: rollout.ActivityCreate},
				},
			},
		},
		{
			EventId: id + 1,
			Attributes: &historypb.HistoryEvent_ActivityTaskCompletedEventAttributes{
				ActivityTaskCompletedEventAttributes: &historypb.ActivityTaskCompletedEventAttributes{
					ScheduledEventId: id, Result: result,
				},
			},
		},
	}
}

// If a rollout has no sandbox yet, its host is found in the events of its workflow. The events of the
// current attempt count, and no further query is sent.
func TestEpisodeIsFoundByEvents(t *testing.T) {
	t.Parallel()

	for name, c := range map[string]struct {
		attempt int
		sandbox string
	}{"first attempt": {1, "r.1"}, "second attempt": {2, "r.2"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client, f, st := newClient(t)
			_, err := client.Start(t.Context(), spec("r"))
			require.NoError(t, err)
			toolService(t, st, "h"+c.sandbox, c.sandbox)
			f.setState("r", rollout.State{Phase: rollout.PhaseQueued, Attempt: c.attempt})
			f.mu.Lock()

			f.length, f.events = 1, append([]*historypb.HistoryEvent{{EventId: 1}}, created(t, 5, rollout.Created{
				Host:      "hr.1",
				SandboxID: "r.1",
			})...)
			f.mu.Unlock()
			// the sandboxes are created while the caller waits
			go func() {
				time.Sleep(20 * time.Millisecond)
				f.mu.Lock()
				f.events = append(f.events, created(t, 9, rollout.Created{Host: "hr.2", SandboxID: "r.2"})...)
				f.mu.Unlock()

				for range 4 {
					f.setState("r", rollout.State{Phase: rollout.PhaseQueued, Attempt: c.attempt})
				}
			}()

			looks := f.looks

			bounded, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()

			status, err := rollouts.NewEpisodes(client, "secret").Ready(bounded, "r")
			require.NoError(t, err)
			require.Equal(t, episode.Status{Steps: 3, SandboxID: c.sandbox}, status)
			require.Equal(t, 1, f.looks-looks)
		})
	}
}

// A call whose tool server failed is not repeated, unlike a call to a host that does not answer. The client
// gets the reason.
func TestEpisodeWhoseToolServerFails(t *testing.T) {
	t.Parallel()
	client, f, st := newClient(t)
	_, err := client.Start(t.Context(), spec("r"))
	require.NoError(t, err)

	asked := 0
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked++

		kind := fault.ToolServerFailed
		if asked == 1 {
			kind = fault.Unavailable
		}

		w.WriteHeader(fault.EdgeOf(kind).HTTPStatus)
		_ = json.NewEncoder(w).Encode(episode.Failure{Kind: kind, Message: `tool server "docs": status 502`})
	}))
	t.Cleanup(srv.Close)
	require.NoError(t, hostapi.Announce(t.Context(), st, store.HostRecord{ID: "h", ToolsURL: srv.URL}))
	f.setState("r", rollout.State{Phase: rollout.PhaseAgent, Attempt: 1, Host: "h", SandboxID: "r.1"})

	bounded, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()

	_, err = rollouts.NewEpisodes(client, "secret").Call(bounded, "r", episode.Call{ID: "1", Tool: "look"})
	require.Equal(t, fault.ToolServerFailed, fault.KindOf(err), "%v", err)
	require.ErrorContains(t, err, `tool server "docs": status 502`)
	require.Equal(t, 2, asked)
}

// A rollout that ends before it has a sandbox takes no calls, and its caller does not wait longer.
func TestEpisodeThatNeverBegins(t *testing.T) {
	t.Parallel()
	client, f, _ := newClient(t)
	_, err := client.Start(t.Context(), spec("r"))
	require.NoError(t, err)
	f.setState("r", rollout.State{Phase: rollout.PhaseQueued, Attempt: 1})

	episodes := rollouts.NewEpisodes(client, "secret")

	bounded, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()

	_, err = episodes.Ready(bounded, "r")
	require.Equal(t, fault.Timeout, fault.KindOf(err), "%v", err)
	f.setState("r", rollout.State{Phase: rollout.PhaseDone, Outcome: rollout.Aborted})

	_, err = episodes.Ready(t.Context(), "r")
	require.Equal(t, fault.Conflict, fault.KindOf(err), "%v", err)
}

// A call does not go to this machine in place of another one that announces an address of loopback.
func TestEpisodeOfAHostThatNobodyReaches(t *testing.T) {
	t.Parallel()
	client, f, st := newClient(t)
	_, err := client.Start(t.Context(), spec("r"))
	require.NoError(t, err)
	require.NoError(t, st.PutHost(t.Context(), store.HostRecord{
		ID: "h", Machine: "elsewhere", URL: "http://elsewhere", ToolsURL: "http://0.0.0.0:1",
	}))
	f.setState("r", rollout.State{Phase: rollout.PhaseAgent, Attempt: 1, Host: "h", SandboxID: "r.1"})

	_, err = rollouts.NewEpisodes(client, "secret").Status(t.Context(), "r")
	require.Equal(t, fault.Unavailable, fault.KindOf(err), "%v", err)
	require.ErrorContains(t, err, "worker.tools_url")
}
