package main

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/catalog"
	"github.com/rolloutd/rolloutd/internal/gateway"
	"github.com/rolloutd/rolloutd/internal/gateway/admin"
	"github.com/rolloutd/rolloutd/internal/seal"
)

func TestUpstream(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	key, err := seal.LoadOrCreate(filepath.Join(data, "key"))
	require.NoError(t, err)
	g, err := gateway.New(gateway.Options{Dir: filepath.Join(data, "gateway"), Key: key, Endpoints: catalog.Names()})
	require.NoError(t, err)

	srv := httptest.NewServer(admin.New(g, admin.Options{Key: key}).TrainerHandler())
	t.Cleanup(srv.Close)

	vars := map[string]string{"ROLLOUTD_TRAINER_URL": srv.URL, "ROLLOUTD_DATA": data}
	for _, tc := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"show", "vllm"}, 0, "vllm: open, 0 calls in flight, 0 waiting\n"},
		{[]string{"drain", "vllm", "--for", "1h", "--wait", "1s", "--abort"}, 0, "vllm: paused until 2"},
		{[]string{"show", "vllm"}, 0, "vllm: paused until 2"},
		{[]string{"resume", "vllm"}, 0, "vllm: open, 0 calls"},
		{[]string{"resume", "vllm", "--version", "step-12"}, 0, "vllm: open, weights step-12, 0 calls in flight"},
		{[]string{"show", "vllm"}, 0, "vllm: open, weights step-12, 0 calls in flight"},
		{[]string{"show", "vllm", "--json"}, 0, `{"version":"step-12","paused":false,"in_flight":0,"queued":0}`},
		{[]string{"show", "vlmm", "--json"}, 1, `{"error":{"kind":"`},
		{[]string{"resume", "vllm", "--version", "1..2"}, 1, "version: must be 1 to 128 letters"},
		{[]string{"audit", "vllm"}, 0, "vllm: 0 turns scored again, 0 marked\n"},
		{[]string{"audit", "vllm", "--turns", "-1"}, 1, "turns: must be from 1 to 1024"},
		{[]string{"pause", "10.0.0.1:8000", "--for", "1h"}, 0, "10.0.0.1:8000: paused until 2"},
		{[]string{"pause", "vllm", "--for", "0s"}, 1, "for_s"},
		{[]string{"pause", "http://10.0.0.1:8000/v1"}, 1, "or host:port of an endpoint given only by URL"},
		{[]string{"pasue", "vllm"}, 1, `rolloutd upstream has no command "pasue"; did you mean pause?`},
		{[]string{"vllm"}, 1, `rolloutd upstream has no command "vllm"; see rolloutd upstream --help`},
		{[]string{"drain", "vlmm"}, 1, `no model endpoint "vlmm"`},
	} {
		code, out, said := rolloutd(t.Context(), vars, append([]string{"upstream"}, tc.args...)...)
		require.Equal(t, tc.code, code, said)
		require.Contains(t, out+said, tc.says)
	}
}

// A command with the data folder of another gateway fails with the reason and creates nothing.
func TestUpstreamWithoutTheKeyFails(t *testing.T) {
	t.Parallel()
	key, err := seal.LoadOrCreate(filepath.Join(t.TempDir(), "key"))
	require.NoError(t, err)
	g, err := gateway.New(gateway.Options{Dir: t.TempDir(), Key: key})
	require.NoError(t, err)

	srv := httptest.NewServer(admin.New(g, admin.Options{Key: key}).TrainerHandler())
	t.Cleanup(srv.Close)
	elsewhere := filepath.Join(t.TempDir(), "data")
	vars := map[string]string{"ROLLOUTD_TRAINER_URL": srv.URL, "ROLLOUTD_DATA": elsewhere}
	code, _, said := rolloutd(t.Context(), vars, "upstream", "show", "vllm")
	require.Equal(t, 1, code)
	require.Contains(t, said, "no key in "+elsewhere)
	require.NoDirExists(t, elsewhere)

	vars["ROLLOUTD_ENCRYPTION_KEY"] = strings.Repeat("0", 64)
	code, _, said = rolloutd(t.Context(), vars, "upstream", "show", "vllm")
	require.Equal(t, 1, code)
	require.Contains(t, said, "another key")
}

// The reason for which new rollouts wait is shown.
func TestUpstreamSaysWhyRolloutsWait(t *testing.T) {
	t.Parallel()

	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"paused":false,"in_flight":1,"queued":0,"busy":"its last 7 answers were no use"}`))
	}))
	t.Cleanup(srv.Close)
	vars := map[string]string{"ROLLOUTD_TRAINER_URL": srv.URL, "ROLLOUTD_ENCRYPTION_KEY": strings.Repeat("0", 64)}
	code, out, said := rolloutd(t.Context(), vars, "upstream", "show", "vllm")
	require.Zero(t, code, said)
	require.Equal(
		t,
		"vllm: open, 1 calls in flight, 0 waiting\nnew rollouts wait: its last 7 answers were no use\n",
		out,
	)
}

// Faults of an endpoint's replies are counted by kind, and an endpoint that answers nothing is named.
func TestUpstreamShowsFaults(t *testing.T) {
	t.Parallel()

	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"in_flight":1,"queued":0,"silent_since":"2026-11-28T10:00:00Z","faults":{"engine_frozen":2,"call_markup":1}}`))
	}))
	t.Cleanup(srv.Close)
	vars := map[string]string{"ROLLOUTD_TRAINER_URL": srv.URL, "ROLLOUTD_ENCRYPTION_KEY": strings.Repeat("0", 64)}
	code, out, said := rolloutd(t.Context(), vars, "upstream", "show", "vllm")
	require.Zero(t, code, said)
	require.Regexp(t, `^vllm: open, 1 calls in flight, 0 waiting
silent since \S+, though it has calls: it may be frozen
call_markup: 1 replies
engine_frozen: 2 replies
$`, out)
}

// The report of an audit is shown by version, with what was marked and skipped.
func TestUpstreamAudit(t *testing.T) {
	t.Parallel()

	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"turns":2,"versions":[{"version":"step-2","turns":2,"tokens":9,"mean_abs":0.5,"k1":-0.25,"k3":0.125}],
			"marked":[{"route":"r.1","turn":3,"version":"step-2","mean_abs":0.9}],"skipped":{"older weights":4}}`))
	}))
	t.Cleanup(srv.Close)
	vars := map[string]string{"ROLLOUTD_TRAINER_URL": srv.URL, "ROLLOUTD_ENCRYPTION_KEY": strings.Repeat("0", 64)}
	code, out, said := rolloutd(t.Context(), vars, "upstream", "audit", "vllm")
	require.Zero(t, code, said)
	require.Equal(t, `vllm: 2 turns scored again, 1 marked
weights "step-2": 2 turns, 9 tokens, mean difference 0.5000, k1 -0.2500, k3 0.1250
marked: r.1 turn 3, weights "step-2", mean difference 0.9000
skipped: 4, older weights
`, out)
}

// The state of an endpoint has its latest audit.
func TestUpstreamShowsItsAudit(t *testing.T) {
	t.Parallel()

	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"in_flight":3,"queued":0,"audit":{"turns":2,"versions":[
			{"version":"step-2","turns":2,"tokens":9,"mean_abs":0.5,"k1":-0.25,"k3":0.125}]}}`))
	}))
	t.Cleanup(srv.Close)
	vars := map[string]string{"ROLLOUTD_TRAINER_URL": srv.URL, "ROLLOUTD_ENCRYPTION_KEY": strings.Repeat("0", 64)}
	code, out, said := rolloutd(t.Context(), vars, "upstream", "show", "vllm")
	require.Zero(t, code, said)
	require.Equal(t, `vllm: open, 3 calls in flight, 0 waiting
latest audit: 2 turns scored again, 0 marked
weights "step-2": 2 turns, 9 tokens, mean difference 0.5000, k1 -0.2500, k3 0.1250
`, out)
}
