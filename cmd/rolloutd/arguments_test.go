package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Wrong arguments are refused with the correct form before a request to a server.
func TestWrongArgumentsAreRefused(t *testing.T) {
	t.Parallel()

	task := taskFile(t, "instruction: x\n")
	for _, tc := range []struct {
		args []string
		want string
	}{
		{[]string{"srve"}, "unknown command \"srve\" for \"rolloutd\"\n\nDid you mean this?\n\tserve\n"},
		{[]string{"run"}, "rolloutd run takes one TASK.yaml or more, got none"},
		{[]string{"run", task, "b.yaml"}, "task set: stat b.yaml: no such file or directory"},
		{[]string{"run", task, " "}, "rolloutd run: TASK.yaml must not be empty"},
		{[]string{"run", task, task, "--limit", "1"}, "--limit does not go with several files"},
		{[]string{"run", task, task, "--rollout-id", "r"}, "--rollout-id does not go with several tasks"},
		{[]string{"run", ""}, "rolloutd run: TASK.yaml must not be empty"},
		{[]string{"show"}, "rolloutd show takes ID, got none"},
		{[]string{"show", " "}, "rolloutd show: ID must not be empty"},
		{[]string{"abort", ""}, "rolloutd abort: ID must not be empty"},
		{[]string{"abort", "r1."}, "rollout_id: must be 1 to 64 letters, digits, '_' or '-'"},
		{[]string{"trace", "../.."}, `rollout_id: must be 1 to 64 letters, digits, '_' or '-', beginning with a letter or digit, got "../.."`},
		{[]string{"trace", ""}, "rolloutd trace: ID must not be empty"},
		{[]string{"upstream", "show", ""}, "rolloutd upstream show: NAME must not be empty"},
		{[]string{"tasks", "chek", "examples"}, `rolloutd tasks has no command "chek"; did you mean check?`},
		{[]string{"image", "pul", "a:1"}, `rolloutd image has no command "pul"; did you mean pull?`},
		{[]string{"store", "usage"}, `rolloutd store has no command "usage"; see rolloutd store --help`},
		{[]string{"agents", "ls"}, `rolloutd agents has no command "ls"; see rolloutd agents --help`},
		{[]string{"ls", "r1"}, `rolloutd ls takes no argument, got ["r1"]`},
		{[]string{"serve", "x"}, `rolloutd serve takes no argument, got ["x"]`},
		{[]string{"doctor", "x"}, "rolloutd doctor takes no argument"},
		{[]string{"version", "x"}, "rolloutd version takes no argument"},
		{[]string{"ls", "--limit", "x"}, `--limit: must be a whole number, got "x"`},
		{[]string{"ls", "--since", "7x"}, `--since: must be a duration such as "55s" or "5m", got "7x"`},
		{[]string{"ls", "--since", "-2h"}, "--since: must not be negative, got -2h0m0s"},
		{[]string{"ls", "--json=perhaps"}, `--json: must be true or false, got "perhaps"`},
		{[]string{"ls", "--statu", "done"}, "unknown flag: --statu; see rolloutd ls --help"},
		{[]string{"ls", "--task", ""}, "--task: must not be empty"},
		{[]string{"ls", "--server", "http://"}, `server address: must be http://HOST:PORT or https://HOST:PORT, got "http://"`},
		{[]string{"run", task, "--timeout", "5"}, `--timeout: must be a duration such as "55s" or "5m", got "5"`},
		{[]string{"run", task, "--timeout", "-5s"}, "--timeout: must not be negative, got -5s"},
		{[]string{"run", task, "--sampling", "hot"}, `--sampling: must be a JSON object such as {"temperature":0.7}`},
		{[]string{"run", task, "--price", "0.15"}, "--price: must be PROMPT/COMPLETION or PROMPT/COMPLETION/CACHED_PROMPT"},
		{[]string{"run", task, "--price", "-1/2"}, "--price: must be PROMPT/COMPLETION"},
		{[]string{"run", task, "--model", ""}, "--model: must not be empty"},
		{[]string{"run", task, "--api-key-env", "", "--rollout-id", " "}, "--api-key-env: must not be empty\n--rollout-id: must not be empty"},
		{[]string{"serve", "--listen", ""}, "--listen: must not be empty"},
		{[]string{"gateway", "--data", ""}, "--data: must not be empty"},
		{[]string{"show", "r1", "--wait", "--timeout", "-1s"}, "--timeout: must not be negative"},
		{[]string{"trace", "r1", "-o", t.TempDir()}, "--output: must be a file"},
	} {
		code, out, errText := rolloutd(
			t.Context(),
			map[string]string{"ROLLOUTD_SERVER": "http://127.0.0.1:1"},
			tc.args...)
		require.Equal(t, 1, code, tc.args)
		require.Empty(t, out, tc.args)
		require.Contains(t, errText, tc.want)
		require.NotContains(t, errText, "start one with", tc.args)
	}
}

// The error for a refused token differs from the error for a missing server and names where to set the token.
func TestRefusedTokens(t *testing.T) {
	t.Parallel()

	status, body := http.StatusUnauthorized, `{"detail":"Not authenticated"}`
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}))
	t.Cleanup(srv.Close)

	for _, args := range [][]string{{"ls"}, {"show", "r1"}, {"abort", "r1"}, {"trace", "r1"}, {"run", taskFile(t, "instruction: x\n")}} {
		code, _, errText := rolloutd(t.Context(), nil, append(args, "--server", srv.URL)...)
		require.Equal(t, 1, code)
		require.Contains(t, errText, "requires a valid bearer token\n  set the token in ROLLOUTD_TOKEN", args)
		require.NotContains(t, errText, "start one with")
	}

	status, body = http.StatusForbidden, `{"detail":"the token of an operator is needed to list rollouts"}`
	_, _, errText := rolloutd(t.Context(), nil, "ls", "--server", srv.URL)
	require.Contains(t, errText, "the token of an operator is needed to list rollouts\n  set the token")

	status, body = http.StatusServiceUnavailable, `{"detail":"list rollouts: Temporal is away","kind":"Unavailable"}`
	_, _, errText = rolloutd(t.Context(), nil, "ls", "--server", srv.URL)
	require.Contains(t, errText, "503 Service Unavailable: list rollouts: Temporal is away")
	require.NotContains(t, errText, "start one with", "a server answered")
}

// A password in the server's address is never shown. A token may end with a line break, as files do.
func TestSecretsInTheAddressAndTheToken(t *testing.T) {
	t.Parallel()

	for _, url := range []string{"http://me:hunter2@127.0.0.1:1", "me:hunter2@127.0.0.1:1", "http://me:hunter2%@127.0.0.1:1", "http://me:hunter2@"} {
		for _, args := range [][]string{{"ls"}, {"show", "r1"}, {"abort", "r1"}, {"trace", "r1"}, {"ls", "--help"}} {
			_, out, errText := rolloutd(t.Context(), map[string]string{"ROLLOUTD_SERVER": url}, args...)
			require.NotContains(t, out+errText, "hunter2", "%s %s", url, args)
		}
	}

	asked := make(chan *http.Request, 1)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r

		_, _ = w.Write([]byte(`{"rollouts":[]}`))
	}))
	t.Cleanup(srv.Close)
	code, _, errText := rolloutd(
		t.Context(),
		map[string]string{"ROLLOUTD_TOKEN": "secret\n"},
		"ls",
		"--server",
		srv.URL,
	)
	require.Zero(t, code, errText)
	require.Equal(t, "Bearer secret", (<-asked).Header.Get("Authorization"))
}

// Without a gateway the message has the address and the setting that changes it.
func TestUpstreamWithoutAGateway(t *testing.T) {
	t.Parallel()

	vars := map[string]string{
		"ROLLOUTD_TRAINER_URL":    "http://127.0.0.1:1",
		"ROLLOUTD_ENCRYPTION_KEY": strings.Repeat("0", 64),
	}
	code, _, errText := rolloutd(t.Context(), vars, "upstream", "show", "vllm")
	require.Equal(t, 1, code)
	require.Contains(
		t,
		errText,
		"connection refused\n  tried: http://127.0.0.1:1; set another with ROLLOUTD_TRAINER_URL",
	)
}

// The server checks the limit, so every value reaches it.
func TestLsSendsEveryLimit(t *testing.T) {
	t.Parallel()

	asked := make(chan string, 1)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.URL.Query().Get("limit")

		w.WriteHeader(http.StatusUnprocessableEntity)
		_, _ = w.Write([]byte(`{"detail":"limit: must be more","kind":"Invalid"}`))
	}))
	t.Cleanup(srv.Close)

	for _, limit := range []string{"-1", "0", "5000"} {
		code, _, errText := rolloutd(t.Context(), nil, "ls", "--server", srv.URL, "--limit", limit)
		require.Equal(t, 1, code)
		require.Equal(t, limit, <-asked)
		require.Equal(t, "rolloutd: limit: must be more\n", errText)
	}
}
