package hostapi_test

import (
	"context"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/host"
	"github.com/rolloutd/rolloutd/internal/host/fleet"
	"github.com/rolloutd/rolloutd/internal/host/hostapi"
	"github.com/rolloutd/rolloutd/internal/store"
)

// self is a host that follows its drain mark.
type self struct {
	*host.Drain
	status fleet.Host
}

func (s self) Status(context.Context) fleet.Host {
	h := s.status
	h.State = hostapi.StateOf(h, s.On())

	return h
}

func record(name, url string) store.HostRecord {
	return store.HostRecord{ID: name, URL: url, ToolsURL: "http://tools", Status: fleet.Host{
		Name:    name,
		Version: "v1",
		CPUs:    2,
	}}
}

// Operators see the current state of hosts that answer and the last record of others. A drain request
// reaches a host at once or at its start.
func TestHosts(t *testing.T) {
	t.Parallel()
	st, err := store.Open(t.Context(), t.TempDir())
	require.NoError(t, err)

	defer st.Close()

	k := key(t)
	own := self{host.NewDrain(st, "alive"), fleet.Host{
		Name: "alive", Version: "v2", SeenAt: time.Now(), Backends: map[string]fleet.Room{"local": {Slots: 4, Used: 1}},
	}}

	srv := httptest.NewServer(hostapi.Handler(hostapi.Options{Key: k, Self: own}))
	defer srv.Close()

	require.NoError(t, hostapi.Announce(t.Context(), st, record("alive", srv.URL)))
	require.NoError(t, hostapi.Announce(t.Context(), st, record("silent", "http://127.0.0.1:1")))
	lost := record("lost", "http://127.0.0.1:1")
	lost.At = time.Now().Add(-time.Hour)
	require.NoError(t, st.PutHost(t.Context(), lost))
	lost.ID, lost.At = "long-gone", time.Now().Add(-100*time.Hour)
	require.NoError(t, st.PutHost(t.Context(), lost))

	c := hostapi.NewClient(st, k)
	page, err := c.Hosts(t.Context())
	require.NoError(t, err)
	require.Len(t, page.Hosts, 3)
	require.Equal(
		t,
		[]string{"alive", "lost", "silent"},
		[]string{page.Hosts[0].Name, page.Hosts[1].Name, page.Hosts[2].Name},
	)
	require.Equal(t, fleet.Running, page.Hosts[0].State)
	require.Equal(t, "v2", page.Hosts[0].Version)
	require.Equal(t, fleet.Lost, page.Hosts[1].State)
	require.Equal(t, fleet.Running, page.Hosts[2].State)
	require.Equal(t, "v1", page.Hosts[2].Version)
	require.NotEmpty(t, page.Hosts[2].Error)

	h, err := c.Drain(t.Context(), "alive", true)
	require.NoError(t, err)
	require.Equal(t, fleet.Draining, h.State, "one sandbox runs")
	require.True(t, own.On())
	h, err = c.Drain(t.Context(), "silent", true)
	require.NoError(t, err)
	require.Equal(t, fleet.Drained, h.State)

	restarted := host.NewDrain(st, "silent")
	require.NoError(t, restarted.Refresh(t.Context()))
	require.True(t, restarted.On(), "it finds the mark at its start")
	h, err = c.Drain(t.Context(), "alive", false)
	require.NoError(t, err)
	require.Equal(t, fleet.Running, h.State)

	for _, name := range []string{"unknown", "../sessions/x", ""} {
		_, err = c.Drain(t.Context(), name, true)
		require.Equal(t, fault.NotFound, fault.KindOf(err), "%q: %v", name, err)
	}
}

// One record has the addresses of both services of a host.
func TestRecordHasBothAddresses(t *testing.T) {
	t.Parallel()
	st, err := store.Open(t.Context(), t.TempDir())
	require.NoError(t, err)

	defer st.Close()

	require.NoError(t, hostapi.Announce(t.Context(), st, record("h", "http://api")))
	h, err := st.Host(t.Context(), "h")
	require.NoError(t, err)
	require.Equal(t, []string{"http://api", "http://tools"}, []string{h.URL, h.ToolsURL})
	require.NotEmpty(t, h.Machine)
}
