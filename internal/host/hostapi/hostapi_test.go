package hostapi_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/eventlog"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/host/hostapi"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/seal"
	"github.com/rolloutd/rolloutd/internal/store"
)

type transcripts map[string]rollout.Transcript

func (t transcripts) Transcript(_ context.Context, sandbox string) (rollout.Transcript, error) {
	found, ok := t[sandbox]
	if !ok {
		return found, fault.New(fault.NotFound, "no agent works in %s", sandbox)
	}

	return found, nil
}

func key(t *testing.T) seal.Key {
	t.Helper()
	k, err := seal.LoadOrCreate(t.TempDir() + "/key")
	require.NoError(t, err)

	return k
}

// A server finds the host by its record, reads new events from any position, and reads the transcript.
func TestHost(t *testing.T) {
	t.Parallel()
	st, err := store.Open(t.Context(), t.TempDir())
	require.NoError(t, err)

	defer st.Close()

	events, err := eventlog.Open(t.TempDir(), slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	k := key(t)
	target := rollout.Target{RolloutID: "r", Attempt: 1}

	srv := httptest.NewServer(hostapi.Handler(hostapi.Options{
		Key:         k,
		Events:      events,
		Transcripts: transcripts{"r.1": {SessionID: "s", Messages: []json.RawMessage{json.RawMessage(`{}`)}}},
	}))
	defer srv.Close()

	c := hostapi.NewClient(st, k)
	_, err = c.Transcript(t.Context(), "h", target)
	require.True(t, fault.Is(err, fault.Unavailable), "it has announced nothing: %v", err)
	require.NoError(t, hostapi.Announce(t.Context(), st, record("h", hostapi.URL(srv.Listener.Addr(), ""))))

	latest, err := c.Transcript(t.Context(), "h", target)
	require.NoError(t, err)
	require.Equal(t, "s", latest.SessionID)
	_, err = c.Transcript(t.Context(), "h", rollout.Target{RolloutID: "r", Attempt: 2})
	require.True(t, fault.Is(err, fault.NotFound), "%v", err)
	require.True(t, fault.Is(c.Events(t.Context(), "h", target, 0, nil), fault.NotFound))

	log := events.Of(target)
	log.Append(rollout.EventText, "", strings.Repeat("long", 5000))
	log.Append(rollout.EventText, "", "second")

	got, ended := make(chan rollout.Event, 10), make(chan error, 1)
	go func() {
		ended <- c.Events(t.Context(), "h", target, 0, func(all []rollout.Event) error {
			for _, e := range all {
				got <- e
			}

			return nil
		})
	}()

	require.Len(t, (<-got).Data, 20002)
	require.JSONEq(t, `"second"`, string((<-got).Data))
	log.Append(rollout.EventText, "", "third")
	require.JSONEq(t, `"third"`, string((<-got).Data))
	require.NoError(t, events.Remove(target))
	require.NoError(t, <-ended)

	enough := errors.New("enough")

	events.Of(target).Append(rollout.EventText, "", "again")
	require.ErrorIs(t, c.Events(t.Context(), "h", target, 0, func([]rollout.Event) error { return enough }), enough)
	srv.CloseClientConnections()
	srv.Close()
	require.True(t, fault.Is(c.Events(t.Context(), "h", target, 0, nil), fault.Unavailable))
}

// The token of another deployment is refused, and so are invalid requests.
func TestRefusals(t *testing.T) {
	t.Parallel()
	k := key(t)

	h := hostapi.Handler(hostapi.Options{Key: k, Transcripts: transcripts{}})
	for path, want := range map[string]int{
		"/rollouts/r/attempts/1/transcript":     http.StatusNotFound,
		"/rollouts/r/attempts/x/transcript":     http.StatusUnprocessableEntity,
		"/rollouts/r/attempts/0/events?after=0": http.StatusUnprocessableEntity,
		"/rollouts/r/attempts/1/events":         http.StatusUnprocessableEntity,
		"/rollouts/r/attempts/1/events?after=1": http.StatusNotFound,
		"/rollouts/r":                           http.StatusNotFound,
	} {
		for token, status := range map[string]int{
			k.Token("host api"):      want,
			key(t).Token("host api"): http.StatusUnauthorized,
			"":                       http.StatusUnauthorized,
		} {
			r := httptest.NewRequest(http.MethodGet, path, http.NoBody)
			r.Header.Set("Authorization", "Bearer "+token)

			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			require.Equal(t, status, w.Code, path)
		}
	}
}

// A host on another machine that announces loopback, or every interface, cannot be reached by that: the address leads
// to this machine. The error names the setting to change.
func TestLoopbackOfAnotherMachine(t *testing.T) {
	t.Parallel()
	st, err := store.Open(t.Context(), t.TempDir())
	require.NoError(t, err)

	defer st.Close()

	for _, url := range []string{"http://127.0.0.1:1", "http://localhost:1", "http://0.0.0.0:1", "http://[::]:1"} {
		require.NoError(
			t,
			st.PutJSON(t.Context(), "hosts/h.json", map[string]string{"url": url, "machine": "elsewhere"}),
		)

		_, err = hostapi.NewClient(st, key(t)).Transcript(t.Context(), "h", rollout.Target{RolloutID: "r", Attempt: 1})
		require.ErrorContains(t, err, "worker.listen", url)
	}
}
