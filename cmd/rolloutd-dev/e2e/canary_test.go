package e2e

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Each search for a key also searches for a control text that must be present. A search of empty or
// unreadable text therefore fails.

func requireClean(t *testing.T, where string, text []byte, control string) {
	t.Helper()
	require.Truef(
		t,
		bytes.Contains(text, []byte(control)),
		"%s: the search is blind, there is no %q in these %d bytes: %.200q",
		where,
		control,
		len(text),
		text,
	)
	requireNoCanary(t, where, text)
}

func requireNoCanary(t *testing.T, where string, text []byte) {
	t.Helper()

	for _, canary := range []string{clientCanary, serverCanary} {
		require.Falsef(t, containsKey(text, canary), "%s holds %s", where, canary)
	}
}

// containsKey reports whether the text contains the key, as plain text or as base64, which JSON uses for bytes.
func containsKey(text []byte, key string) bool {
	for shift := range 3 {
		encoded := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", shift) + key))
		// the characters that do not depend on adjacent bytes
		whole := encoded[(shift*8+5)/6 : (shift+len(key))*8/6]
		if bytes.Contains(text, []byte(whole)) {
			return true
		}
	}

	return bytes.Contains(text, []byte(key))
}

func TestSearchFindsKeys(t *testing.T) {
	t.Parallel()

	for _, before := range []string{"", "a", "ab", "abc"} {
		text, err := json.Marshal([]byte(before + clientCanary + "z"))
		require.NoError(t, err)
		require.True(t, containsKey(text, clientCanary), "base64 after %q", before)
		require.True(t, containsKey([]byte(before+clientCanary), clientCanary))
		require.False(t, containsKey(text, serverCanary))
	}
}

var sealedForm = regexp.MustCompile(`sealed\.v1\.[A-Za-z0-9+/_=-]+`)

// requireCleanAtWork searches while a model call is held. It searches the processes of the sandbox and of
// the host, and the gateway's folder. The gateway's journal must contain the sealed key of the rollout's
// input.
func (s keySearch) requireCleanAtWork(t *testing.T, id, canary string) {
	t.Helper()
	_, plain := s.history(t, id)
	sealed := sealedForm.Find(plain)
	require.NotEmpty(t, sealed, "no sealed key in the history")
	requireClean(t, "gateway folder", allFiles(t, filepath.Join(s.data, "gateway")), string(sealed))

	found := sandboxProcesses(t, id+".1")
	for _, control := range []string{"opencode", "HOME=/home/user", "/opt/rolloutd/sandboxd"} {
		requireClean(t, "command lines and environments of the sandbox", found, control)
	}

	for name, r := range s.roles {
		r.requireClean(t, name, canary)
	}
}

func (s keySearch) requireCleanHistory(t *testing.T, id string) {
	t.Helper()
	raw, plain := s.history(t, id)
	requireClean(t, "history", raw, id)
	require.NotContains(t, string(raw), "look for keys", "payloads are encrypted")
	requireClean(t, "history, decrypted", plain, "look for keys")
}

func (s keySearch) requireCleanAnswers(t *testing.T, id string) {
	t.Helper()

	for path, control := range map[string]string{
		"": id, "/result": id, "/trace": "look for keys", "/messages": "look for keys", "/events": "event: done",
		"/logs/agent": "bash", "/logs/proxy": "status 200",
	} {
		requireClean(t, path, []byte(get(t, s.url+"/rollouts/"+id+path)), control)
	}
}

// requireCleanRefusal searches the error for invalid arguments.
func (s keySearch) requireCleanRefusal(t *testing.T, a args) {
	t.Helper()

	a["instruction"] = "never begun"
	_, err := call(t.Context(), s.url, "start_rollout", a)
	require.Error(t, err)
	requireClean(t, "refusal", []byte(err.Error()), "base_url")
}

// requireCleanFolder searches every file of the data folder. It searches the store and Temporal's database
// again, each with a control text.
func (s keySearch) requireCleanFolder(t *testing.T, id string) {
	t.Helper()
	requireClean(t, "store", allFiles(t, filepath.Join(s.data, "store")), "look for keys")

	var database []byte

	everyFile(t, s.data, func(path string, text []byte) {
		requireNoCanary(t, path, text)

		if strings.HasPrefix(filepath.Base(path), "temporal-") {
			database = append(database, text...)
		}
	})
	requireClean(t, "Temporal's database", database, id)
}

// requireCleanTelemetry searches the logs, metrics and spans of all processes.
func (s keySearch) requireCleanTelemetry(t *testing.T, spans *collector) {
	t.Helper()

	var logs, metrics []byte

	for name, r := range s.roles {
		log, err := os.ReadFile(r.log)
		require.NoError(t, err)
		requireClean(t, name+"'s log", log, "ready")

		logs = append(logs, log...)
		if r.metrics != "" {
			metrics = append(metrics, get(t, r.metrics)...)
		}
	}
	// a sandbox id, a workflow id
	for _, control := range []string{"start-rollout.1", "rollout-start-rollout"} {
		requireClean(t, "logs", logs, control)
	}

	for _, control := range []string{`rolloutd_envserver_tool_calls_total{outcome="ok",tool="start_rollout"}`, "rolloutd_gateway_", "temporal_"} {
		requireClean(t, "metrics", metrics, control)
	}
	// a span of serve, of worker, of gateway
	for _, control := range []string{"tool run_rollout", "RunActivity:CloseSandbox", "model call"} {
		require.Eventually(
			t,
			func() bool { return bytes.Contains(spans.all(), []byte(control)) },
			5*time.Minute,
			200*time.Millisecond,
			control,
		)
	}

	requireNoCanary(t, "spans", spans.all())
}

func allFiles(t *testing.T, dir string) []byte {
	t.Helper()

	var all []byte

	everyFile(t, dir, func(_ string, text []byte) { all = append(all, text...) })

	return all
}
