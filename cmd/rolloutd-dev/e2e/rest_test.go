package e2e

import (
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

// The REST API lists rollouts by filter and serves their results, traces and events.
func TestRolloutsOverREST(t *testing.T) {
	t.Parallel()
	srv := startDev(t, devOptions{})
	odd := `it's an "odd" task\?`
	result := runRollout(t, srv.url, args{
		"instruction": "say hello",
		"agent":       rollout.AgentReact,
		"endpoint":    "scripted",
		"task_id":     odd,
		"group_id":    "g1",
		"verify":      []string{"true"},
	})
	other := runRollout(t, srv.url, args{
		"instruction": "say hello",
		"agent":       rollout.AgentReact,
		"endpoint":    "scripted",
		"task_id":     "other",
		"setup":       []string{"false"},
	})

	ended := start(t, srv.url, args{
		"instruction": "say hello",
		"agent":       rollout.AgentReact,
		"endpoint":    "scripted",
		"task_id":     "ended",
		"setup":       []string{"sleep 600"},
	})
	waitFor(t, srv.url, ended, "is at its setup", func(s state) bool { return s.Phase == rollout.PhaseSetup })
	require.Empty(t, listed(t, srv.url, "outcome=infra_failed"), "it runs")
	require.NoError(t, srv.client(t).TerminateWorkflow(t.Context(), rollout.WorkflowID(ended), "", "by an operator"))

	for query, want := range map[string][]string{
		"task_id=" + url.QueryEscape(odd):         {result.ID},
		"outcome=completed":                       {result.ID},
		"outcome=setup_failed":                    {other.ID},
		"group_id=g1":                             {result.ID},
		"group_id=g2":                             nil,
		"outcome=infra_failed":                    {ended},
		"task_id=" + url.QueryEscape("it's gone"): nil,
	} {
		require.Eventually(
			t,
			func() bool { return equal(listed(t, srv.url, query), want) },
			5*time.Minute,
			200*time.Millisecond,
			query,
		)
	}

	require.Len(t, listed(t, srv.url, "status=done"), 3)

	lines := strings.Split(strings.TrimSpace(get(t, srv.url+"/rollouts/"+result.ID+"/trace")), "\n")
	require.Len(t, lines, len(result.ProxyTurns))
	turn := decode[rollout.Turn](t, lines[0])
	require.Equal(t, result.ProxyTurns[0].CompletionTokenIDs, turn.CompletionTokenIDs)
	require.NotEmpty(t, turn.Request)
	require.Equal(t, result, decode[rollout.Result](t, get(t, srv.url+"/rollouts/"+result.ID+"/result")))
	require.Contains(t, get(t, srv.url+"/rollouts/"+result.ID+"/events"), "event: done")
}

// listed returns the ids on the first page of the list.
func listed(t *testing.T, server, query string) []string {
	t.Helper()

	var page struct {
		Rollouts []struct {
			ID string `json:"rollout_id"`
		} `json:"rollouts"`
	}
	require.NoError(t, json.Unmarshal([]byte(get(t, server+"/rollouts?"+query)), &page))

	var ids []string
	for _, r := range page.Rollouts {
		ids = append(ids, r.ID)
	}

	return ids
}

func get(t *testing.T, address string) string {
	t.Helper()

	text, known := look(t, address)
	require.True(t, known, "%s: %s", address, text)

	return text
}

// look gets a state. It is not known while no worker answers for it, as after a kill of Temporal.
func look(t *testing.T, address string) (text string, known bool) {
	t.Helper()

	resp, err := http.Get(address)
	require.NoError(t, err)

	defer resp.Body.Close()

	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)

	if resp.StatusCode == http.StatusServiceUnavailable {
		return string(body), false
	}

	require.Equal(t, http.StatusOK, resp.StatusCode, "%s: %s", address, body)

	return string(body), true
}

func equal(a, b []string) bool { return strings.Join(a, " ") == strings.Join(b, " ") }
