package e2e

import (
	"bufio"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

// events returns the events of a rollout after an id. It reads them until the stream ends.
func events(t testing.TB, server, id, after string) []rollout.Event {
	t.Helper()

	var all []rollout.Event

	follow(t, server, id, after, func(e rollout.Event) {
		// events without an id are not in the log
		if e.ID > 0 {
			all = append(all, e)
		}
	})

	return all
}

// follow calls each for every event of a rollout after an id, as the event arrives, until the stream ends.
func follow(t testing.TB, server, id, after string, each func(rollout.Event)) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server+"/rollouts/"+id+"/events", http.NoBody)
	require.NoError(t, err)
	req.Header.Set("Last-Event-ID", after)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)

	defer resp.Body.Close()

	var e rollout.Event

	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)

	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), ": ")
		switch name {
		case "id":
			e.ID, err = strconv.ParseInt(value, 10, 64)
			require.NoError(t, err)
		case "event":
			e.Kind = rollout.EventKind(value)
		case "data":
			e.Data = json.RawMessage(value)
			each(e)
			e = rollout.Event{}
		}
	}
}

// BenchmarkEventLatency follows rollouts of two agents and reports the time from an event until its client has read it.
func BenchmarkEventLatency(b *testing.B) {
	srv := startDev(b, devOptions{script: benchScript})
	for _, agent := range []string{"opencode", "react"} {
		b.Run(agent, func(b *testing.B) {
			var late []float64

			for b.Loop() {
				id := start(b, srv.url, args{
					"instruction": "bench",
					"endpoint":    "scripted",
					"agent":       agent,
					"verify":      []string{"true"},
				})
				follow(b, srv.url, id, "", func(e rollout.Event) {
					now := time.Now()

					var happened rollout.Stamp
					if json.Unmarshal(e.Data, &happened) == nil && !happened.At.IsZero() {
						late = append(late, now.Sub(happened.At).Seconds()*1000)
					}
				})
			}

			slices.Sort(late)
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64(len(late))/float64(b.N), "events/rollout")
			b.ReportMetric(late[len(late)/2], "median-ms")
			b.ReportMetric(late[len(late)*99/100], "p99-ms")
			b.ReportMetric(late[len(late)-1], "most-ms")
		})
	}
}

// A client that follows a rollout receives each event once and in order. A client that connects later
// receives the same events, after the event id that it gives. Both agents report their texts and tool
// calls.
func TestEventsOfARollout(t *testing.T) {
	t.Parallel()

	srv := startDev(t, devOptions{})
	for _, agent := range []string{"opencode", "react"} {
		task := exampleArgs(t, "binary_search")
		task["agent"], task["setup"] = agent, []string{"echo prepared"}
		id := start(t, srv.url, task)
		live := events(t, srv.url, id, "")
		kinds := map[rollout.EventKind]int{}

		var last int64
		for _, e := range live {
			require.Greater(t, e.ID, last)
			kinds[e.Kind]++
			last = e.ID
		}

		for _, kind := range []rollout.EventKind{
			rollout.EventPhase, rollout.EventAgent, rollout.EventText, rollout.EventToolStart, rollout.EventToolEnd, rollout.EventTurn, rollout.EventCommand,
			rollout.EventGrade, rollout.EventAttempt, rollout.EventDone,
		} {
			require.NotZero(t, kinds[kind], "%s of %s: %v", kind, agent, kinds)
		}

		require.Equal(t, kinds[rollout.EventToolStart], kinds[rollout.EventToolEnd])
		res := decode[rollout.Result](t, get(t, srv.url+"/rollouts/"+id+"/result"))
		require.Equal(t, res.Usage.Turns, kinds[rollout.EventTurn])
		require.Equal(t, 2*(len(res.SetupResults)+len(res.VerifyResults)), kinds[rollout.EventCommand])
		require.Equal(
			t,
			len(res.Phases),
			kinds[rollout.EventPhase]-1,
			"the result does not have the last one, which closes the sandbox",
		)
		t.Log(agent, kinds)

		later := events(t, srv.url, id, "0")
		require.Equal(t, later[len(later)/2:], events(t, srv.url, id, strconv.FormatInt(later[len(later)/2-1].ID, 10)))
		require.Equal(t, untimed(t, live), untimed(t, later))
	}
}

// untimed removes the start from phase events. While no host has the rollout, the start is a time of the
// workflow's clock.
func untimed(t *testing.T, all []rollout.Event) []rollout.Event {
	t.Helper()

	for i, e := range all {
		if e.Kind == rollout.EventPhase {
			p := decode[rollout.PhaseEvent](t, string(e.Data))
			p.Start = time.Time{}
			// plain values always encode
			all[i].Data, _ = json.Marshal(p)
		}
	}

	return all
}
