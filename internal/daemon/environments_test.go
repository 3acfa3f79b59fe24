package daemon

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/config"
	"github.com/rolloutd/rolloutd/internal/fault"
)

// Environments exist even if their tool servers do not answer. A server that becomes available is listed.
func TestEnvironmentsDoNotNeedTheirToolServers(t *testing.T) {
	t.Parallel()

	var up atomic.Bool

	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if !up.Load() {
			w.WriteHeader(http.StatusBadGateway)
			return
		}

		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(
			[]byte(
				`{"tools":[{"type":"function","function":{"name":"lookup","description":"x","parameters":{"type":"object"}}}]}`,
			),
		)
	}))
	t.Cleanup(srv.Close)

	var c config.Config

	c.Tools.Servers = map[string]config.ToolSource{
		"own":    {URL: srv.URL},
		"secret": {URL: srv.URL, Missing: fault.Field("tools.servers.secret.token", "no such variable")},
	}
	c.Environments = map[string]config.Environment{
		"own":    {EnabledToolsets: []string{"own"}},
		"secret": {EnabledToolsets: []string{"secret"}},
	}
	tools, closeTools, err := toolLists(c, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, closeTools()) })

	all, err := episodeEnvironments(c, tools)
	require.NoError(t, err)
	require.Equal(t, "own", all[0].Name)
	_, err = all[0].Tools(t.Context())
	require.True(t, fault.Is(err, fault.Unavailable), err)
	require.ErrorContains(t, err, `toolset "own"`)
	_, err = all[1].Tools(t.Context())
	require.ErrorContains(t, err, "tools.servers.secret.token")
	up.Store(true)

	list, err := all[0].Tools(t.Context())
	require.NoError(t, err)
	require.Equal(t, "lookup", list[0].Name)
}

// A seed always picks the same task, and every task has seeds. An id picks its task.
func TestSeedPicksATask(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "tasks.jsonl")
	require.NoError(t, os.WriteFile(path, []byte(`{"id":"a","instruction":"do a"}
{"id":"b","instruction":"do b"}
{"id":"c","instruction":"do c"}
`), 0o600))

	var c config.Config

	c.TaskSets = map[string]config.TaskSet{"letters": {Path: path}}
	c.Environments = map[string]config.Environment{"letters": {TaskSet: "letters"}}
	tools, closeTools, err := toolLists(c, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, closeTools()) })

	all, err := episodeEnvironments(c, tools)
	require.NoError(t, err)

	tasks := all[0].Tasks
	picked := map[any]bool{}

	for seed := range int64(3) {
		for _, s := range []int64{seed, seed, seed + 3_000_000_000_000} {
			task, err := tasks.Pick("", s)
			require.NoError(t, err)

			picked[task["instruction"]] = true
			require.Len(t, picked, int(seed)+1, "seed %d", s)
		}
	}

	_, err = tasks.Pick("", -1)
	require.NoError(t, err)
	task, err := tasks.Pick("b", 0)
	require.NoError(t, err)
	require.Equal(t, "do b", task["instruction"])

	_, err = tasks.Pick("d", 0)
	require.True(t, fault.Is(err, fault.Invalid), err)
	require.ErrorContains(t, err, "task_id")
}
