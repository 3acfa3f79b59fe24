package e2e

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/scripted"
)

// canaries are keys that must be found nowhere but at the model endpoint: one that a client gives, one of the server's own.
const (
	clientCanary = "sk-canary-of-the-client-4f1d9a"
	serverCanary = "sk-canary-of-the-server-77c0be"
)

// A key opens the model endpoint, which even repeats it in an error, and is found nowhere else: not in Temporal's history, not in
// the data folder (database, journal, store, traces), not in logs, metrics and spans, not in what the API tells, not in the
// sandbox's files and environments, as the agent sees them and as the host does.
func TestKeysAreFoundNowhere(t *testing.T) {
	t.Parallel()
	model, spans := startKeyedModel(t), startCollector(t)
	srv := startDev(t, devOptions{env: append(spans.env(), "VLLM_URL="+model.url, "VLLM_API_KEY="+serverCanary)})
	for canary, a := range map[string]args{
		clientCanary: {"base_url": model.url, "model": "m", "api_key": clientCanary},
		serverCanary: {"endpoint": "vllm"},
	} {
		a["instruction"] = "look for keys"
		a["verify"] = []string{"test -s found.txt && ! grep -q canary-of found.txt"}
		id := start(t, srv.url, a)
		model.awaitCall(t, canary)
		requireCleanAtWork(t, srv, id)
		close(model.doors[canary].open)
		result := finalize(t, srv.url, id)
		require.Equal(t, rollout.Completed, result.Outcome, deref(result.Error))
		require.InDelta(t, 1.0, *result.Reward, 0, "found in the sandbox: %s", result.Files["/home/user/workdir/found.txt"])
		requireCleanHistory(t, srv, id)
		requireCleanAnswers(t, srv, id)
		requireCleanFolder(t, srv, id)
		requireCleanSigns(t, srv, spans, id)
	}
	// The agent's search would find one: a marker that setup plants in a file.
	planted := runRollout(t, srv.url, args{
		"instruction": "look for keys", "endpoint": "vllm", "setup": []string{"echo sk-canary-of-the-control > /tmp/planted"},
		"verify": []string{"grep -q canary-of-the-control found.txt"},
	})
	require.InDelta(t, 1.0, *planted.Reward, 0, "the search is blind: %s", planted.Files["/home/user/workdir/found.txt"])
}

// keyedModel is a scripted model that holds each key's calls until its door is opened.
type keyedModel struct {
	url   string
	doors map[string]door
}

type door struct{ asked, open chan struct{} }

func startKeyedModel(t *testing.T) keyedModel {
	t.Helper()
	scripts, err := scripted.Load(strings.NewReader(searchScript))
	require.NoError(t, err)
	play := scripted.New(scripted.Options{Scripts: scripts})
	m := keyedModel{doors: map[string]door{}}
	for _, canary := range []string{clientCanary, serverCanary} {
		m.doors[canary] = door{make(chan struct{}, 1), make(chan struct{})}
	}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if d, ok := m.doors[strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")]; ok {
			d.pass(t.Context())
		}
		play.ServeHTTP(w, r)
	}))
	t.Cleanup(func() { srv.CloseClientConnections(); srv.Close() })
	m.url = srv.URL
	return m
}

func (d door) pass(ctx context.Context) {
	select {
	case d.asked <- struct{}{}:
	default: // one is enough
	}
	select {
	case <-d.open:
	case <-ctx.Done():
	}
}

// awaitCall waits until a call with the key is held.
func (m keyedModel) awaitCall(t *testing.T, canary string) {
	t.Helper()
	select {
	case <-m.doors[canary].asked:
	case <-time.After(90 * time.Second):
		t.Fatalf("the endpoint never saw the key %s", canary)
	}
}

// searchScript has the agent look for keys wherever it can read. The pattern is put together at run time, or the agent would
// find its own command.
const searchScript = `
- match: look for keys
  turns:
    - faults: [{times: 1, status: 500, echo_key: true}]
      tool_calls:
        - name: bash
          arguments:
            command: "p=sk-can; p=${p}ary; (grep -rhaoE \"$p-of[a-z0-9-]*\" /home/user /tmp /run /etc 2>/dev/null; for f in /proc/[0-9]*/environ /proc/[0-9]*/cmdline; do tr '\\0' '\\n' < $f 2>/dev/null; done; env; echo looked) > found.txt"
            description: "Look"
    - text: Looked.
`
