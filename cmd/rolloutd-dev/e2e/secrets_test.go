package e2e

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/scripted"
)

// The canaries are keys that only the model endpoint may receive: one of a client and one of the server.
const (
	clientCanary = "sk-canary-of-the-client-4f1d9a"
	serverCanary = "sk-canary-of-the-server-77c0be"
)

// The model endpoint receives the key and even repeats it in an error. The key is in no other place: not in
// Temporal's history, the data folder (database, journal, store, traces), the logs, metrics and spans, or
// the API's answers; not in the sandbox's files and environments, as the agent and as the host see them;
// not in the environments of rolloutd's processes, except where the test puts the server's own key; and not
// in the memory of the processes that do not use it.
func TestKeysAreFoundNowhere(t *testing.T) {
	t.Parallel()

	for name, start := range map[string]func(*testing.T, keyedModel, *collector) keySearch{
		"one process": searchOneProcess, "four processes": searchFourProcesses,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			model, spans := startKeyedModel(t), startCollector(t)
			s := start(t, model, spans)
			s.requireCleanRefusal(t, args{"base_url": "no address", "model": "m", "api_key": clientCanary})
			s.requireCleanRollout(t, model, "run_rollout", clientCanary, args{
				"base_url": model.url,
				"model":    "m",
				"api_key":  clientCanary,
			})
			s.requireCleanRollout(t, model, "start_rollout", serverCanary, args{"endpoint": "vllm"})
			s.requireCleanTelemetry(t, spans)
		})
	}
}

// requireCleanRollout runs a rollout with the key. It searches while a model call with the key is held, and
// again after the end of the rollout. The agent's own search must find a control that setup writes to a file.
func (s keySearch) requireCleanRollout(t *testing.T, model keyedModel, tool, canary string, a args) {
	t.Helper()

	id := strings.ReplaceAll(tool, "_", "-")
	a["rollout_id"], a["instruction"] = id, "look for keys"
	a["setup"] = []string{"echo sk-canary-of-the-control > /tmp/planted"}
	a["verify"] = []string{"grep -q canary-of-the-control found.txt", "! grep -E 'canary-of-the-(client|server)' found.txt"}
	answered := make(chan error, 1)
	// ends with its call, which ends with the test
	go func() {
		text, err := call(t.Context(), s.url, tool, a)
		if err == nil && containsKey([]byte(text), canary) {
			err = errors.New("the answer holds the key")
		}

		answered <- err
	}()

	model.awaitCall(t, canary)
	s.requireCleanAtWork(t, id, canary)
	close(model.gates[canary].open)
	require.NoError(t, <-answered)
	result := finalize(t, s.url, id)
	require.Equal(t, rollout.Completed, result.Outcome, deref(result.Error))
	require.InDelta(t, 1.0, *result.Reward, 0, "found in the sandbox: %s", result.Files["/home/user/workdir/found.txt"])
	s.requireCleanHistory(t, id)
	s.requireCleanAnswers(t, id)
	s.requireCleanFolder(t, id)
}

// keyedModel is a scripted model that holds the calls with a key until the gate of this key is opened.
type keyedModel struct {
	url   string
	gates map[string]keyGate
}

type keyGate struct{ asked, open chan struct{} }

func startKeyedModel(t *testing.T) keyedModel {
	t.Helper()

	scripts, err := scripted.Load(strings.NewReader(searchScript))
	require.NoError(t, err)

	play := scripted.New(scripted.Options{Scripts: scripts})

	m := keyedModel{gates: map[string]keyGate{}}
	for _, canary := range []string{clientCanary, serverCanary} {
		m.gates[canary] = keyGate{make(chan struct{}, 1), make(chan struct{})}
	}

	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if d, ok := m.gates[strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")]; ok && !isProbe(r) {
			d.pass(t.Context())
		}

		play.ServeHTTP(w, r)
	}))

	t.Cleanup(func() { srv.CloseClientConnections(); srv.Close() })

	m.url = srv.URL

	return m
}

func (d keyGate) pass(ctx context.Context) {
	select {
	case d.asked <- struct{}{}:
	default: // an earlier call was reported
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
	case <-m.gates[canary].asked:
	case <-time.After(5 * time.Minute):
		t.Fatalf("the endpoint never saw the key %s", canary)
	}
}

// searchScript makes the agent search for keys wherever it can read. The command builds the pattern at run
// time, so that the search does not find the command itself.
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
