package e2e

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Each place where a key might be is searched together with something that must be there: a search that reads nothing, or
// what it cannot read, fails.

func requireClean(t *testing.T, where string, text []byte, control string) {
	t.Helper()
	require.Truef(t, bytes.Contains(text, []byte(control)), "%s: the search is blind, there is no %q in these %d bytes: %.200q", where, control, len(text), text)
	requireNoCanary(t, where, text)
}

func requireNoCanary(t *testing.T, where string, text []byte) {
	t.Helper()
	for _, canary := range []string{clientCanary, serverCanary} {
		require.Falsef(t, holds(text, canary), "%s holds %s", where, canary)
	}
}

// holds tells whether the text has the key, as it is or as base64, in which JSON writes bytes.
func holds(text []byte, key string) bool {
	for shift := range 3 {
		encoded := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", shift) + key))
		whole := encoded[(shift*8+5)/6 : (shift+len(key))*8/6] // the characters that no neighbour changes
		if bytes.Contains(text, []byte(whole)) {
			return true
		}
	}
	return bytes.Contains(text, []byte(key))
}

func TestSearchForKeysFinds(t *testing.T) {
	t.Parallel()
	for _, before := range []string{"", "a", "ab", "abc"} {
		text, err := json.Marshal([]byte(before + clientCanary + "z"))
		require.NoError(t, err)
		require.True(t, holds(text, clientCanary), "base64 after %q", before)
		require.True(t, holds([]byte(before+clientCanary), clientCanary))
		require.False(t, holds(text, serverCanary))
	}
}

var sealedForm = regexp.MustCompile(`sealed\.v1\.[A-Za-z0-9+/_=-]+`)

// requireCleanAtWork looks while a model call is held: at the sandbox's processes from outside, and at the gateway's folder,
// whose journal has the key in the sealed form that the rollout brought.
func requireCleanAtWork(t *testing.T, srv *dev, id string) {
	t.Helper()
	_, plain := srv.history(t, id)
	sealed := sealedForm.Find(plain)
	require.NotEmpty(t, sealed, "no sealed key in the history")
	requireClean(t, "gateway folder", allFiles(t, filepath.Join(srv.data, "gateway")), string(sealed))
	told := sandboxProcesses(t, id+".1")
	requireClean(t, "command lines and environments of the sandbox", told, "opencode")
	requireClean(t, "command lines and environments of the sandbox", told, "HOME=/home/user")
}

func requireCleanHistory(t *testing.T, srv *dev, id string) {
	t.Helper()
	raw, plain := srv.history(t, id)
	requireClean(t, "history", raw, id)
	require.NotContains(t, string(raw), "look for keys", "payloads are encrypted")
	requireClean(t, "history, decrypted", plain, "look for keys")
}

func requireCleanAnswers(t *testing.T, srv *dev, id string) {
	t.Helper()
	for path, control := range map[string]string{
		"": id, "/result": id, "/trace": "look for keys", "/messages": "look for keys", "/events": "event: done",
		"/logs/agent": "bash", "/logs/proxy": "status 200",
	} {
		requireClean(t, path, []byte(get(t, srv.url+"/rollouts/"+id+path)), control)
	}
}

// requireCleanFolder looks at every file of the data folder, those of its parts once more by themselves.
func requireCleanFolder(t *testing.T, srv *dev, id string) {
	t.Helper()
	requireClean(t, "store", allFiles(t, filepath.Join(srv.data, "store")), "look for keys")
	var database []byte
	everyFile(t, srv.data, func(path string, text []byte) {
		requireNoCanary(t, path, text)
		if strings.HasPrefix(filepath.Base(path), "temporal-") {
			database = append(database, text...)
		}
	})
	requireClean(t, "Temporal's database", database, id)
}

// requireCleanSigns looks at what an operator's tools collect. The log is that of all roles.
func requireCleanSigns(t *testing.T, srv *dev, spans *collector, id string) {
	t.Helper()
	log := allFiles(t, filepath.Dir(srv.log))
	requireClean(t, "log", log, id)
	requireClean(t, "metrics", []byte(get(t, srv.metrics)), `rolloutd_envserver_tool_calls_total{outcome="ok",tool="start_rollout"}`)
	require.Eventually(t, func() bool { return bytes.Contains(spans.all(), []byte("RunActivity:CloseSandbox")) }, 30*time.Second, 50*time.Millisecond)
	requireClean(t, "spans", spans.all(), "model call")
}

func allFiles(t *testing.T, dir string) []byte {
	t.Helper()
	var all []byte
	everyFile(t, dir, func(_ string, text []byte) { all = append(all, text...) })
	return all
}
