package e2e

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/scripted"
)

// canaries are keys that must be found nowhere but at the model endpoint: one that a client gives, one of the server's own.
const (
	clientCanary = "sk-canary-of-the-client-4f1d9a"
	serverCanary = "sk-canary-of-the-server-77c0be"
)

// A key opens the model endpoint and is found nowhere else: not in the data folder (history, journal, store, traces, logs), not
// in the result, not in the sandbox's files, environments and /proc.
func TestKeysAreFoundNowhere(t *testing.T) {
	t.Parallel()
	scripts, err := scripted.Load(bytes.NewReader([]byte(searchScript)))
	require.NoError(t, err)
	play := scripted.New(scripted.Options{Scripts: scripts})
	var withKey atomic.Int64
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.Header.Get("Authorization") {
		case "Bearer " + clientCanary, "Bearer " + serverCanary:
			withKey.Add(1)
		}
		play.ServeHTTP(w, r)
	}))
	t.Cleanup(model.Close)

	srv := startDev(t, devOptions{env: []string{"VLLM_URL=" + model.URL, "VLLM_API_KEY=" + serverCanary}})
	for _, a := range []args{
		{"base_url": model.URL, "model": "m", "api_key": clientCanary},
		{"endpoint": "vllm"},
	} {
		a["instruction"] = "look for keys"
		a["verify"] = []string{"test -s found.txt && ! grep -q canary-of found.txt"}
		before := withKey.Load()
		result := runRollout(t, srv.url, a)
		require.Equal(t, rollout.Completed, result.Outcome, deref(result.Error))
		require.InDelta(t, 1.0, *result.Reward, 0, "found in the sandbox: %s", result.Files["/home/user/workdir/found.txt"])
		require.Greater(t, withKey.Load(), before, "the endpoint never saw the key")
		text, err := json.Marshal(result)
		require.NoError(t, err)
		requireNoCanary(t, "result", text)
	}
	// The search would find one: a marker that setup plants in a file.
	planted := runRollout(t, srv.url, args{
		"instruction": "look for keys", "endpoint": "vllm", "setup": []string{"echo sk-canary-of-the-control > /tmp/planted"},
		"verify": []string{"grep -q canary-of-the-control found.txt"},
	})
	require.InDelta(t, 1.0, *planted.Reward, 0, "the search is blind: %s", planted.Files["/home/user/workdir/found.txt"])
	everyFile(t, srv.data, func(path string, text []byte) { requireNoCanary(t, path, text) })
	log, err := os.ReadFile(srv.log)
	require.NoError(t, err)
	requireNoCanary(t, "log", log)
}

func requireNoCanary(t *testing.T, where string, text []byte) {
	t.Helper()
	for _, canary := range []string{clientCanary, serverCanary} {
		require.False(t, bytes.Contains(text, []byte(canary)), "%s holds %s", where, canary)
	}
}

// searchScript has the agent look for keys wherever it can read. The pattern is put together at run time, or the agent would
// find its own command.
const searchScript = `
- match: look for keys
  turns:
    - tool_calls:
        - name: bash
          arguments:
            command: "p=sk-can; p=${p}ary; (grep -rhaoE \"$p-of[a-z0-9-]*\" /home/user /tmp /run /etc 2>/dev/null; for f in /proc/[0-9]*/environ /proc/[0-9]*/cmdline; do tr '\\0' '\\n' < $f 2>/dev/null; done; env; echo looked) > found.txt"
            description: "Look"
    - text: Looked.
`
