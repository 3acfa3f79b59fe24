package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/config"
)

// screen is an output that a test can read while a command writes to it.
type screen struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()

	return s.text.Write(p)
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()

	return s.text.String()
}

// process is a rolloutd-dev in the process of the test.
type process struct {
	out  *screen
	data string
	stop context.CancelFunc
	done chan error
}

// launch runs the command with free ports until the test ends.
func launch(t *testing.T, data string, args ...string) *process {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	p := &process{out: &screen{}, data: data, stop: cancel, done: make(chan error, 1)}
	cmd := command(std{p.out, p.out, environ()})

	cmd.SetArgs(append(args, "--config", anyPorts(t), "--data", data, "--temporal-port", "0", "--ui-port", "0"))
	go func() { p.done <- cmd.ExecuteContext(ctx) }()

	t.Cleanup(func() { cancel() })

	return p
}

// environ returns an environment with the path of sandboxd and no other variable of the test.
func environ() config.Environ {
	return config.Environ{sandboxdEnv: os.Getenv(sandboxdEnv)}
}

func anyPorts(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ports.yaml")
	require.NoError(t, os.WriteFile(path, []byte(`
serve: {listen: "127.0.0.1:0", web: true}
gateway: {listen: "127.0.0.1:0", trainer_listen: "127.0.0.1:0"}
model: {listen: "127.0.0.1:0"}
telemetry: {listen: "127.0.0.1:0"}
`), 0o600))

	return path
}

// address waits for the banner and returns the address with the name.
func (p *process) address(t *testing.T, name string) string {
	t.Helper()

	line := regexp.MustCompile(`(?m)^  ` + name + ` +(\S+)`)
	require.Eventually(t, func() bool {
		select {
		case err := <-p.done:
			t.Errorf("ended early: %v\n%s", err, p.out)

			p.done <- err

			return true
		default:
			return line.MatchString(p.out.String())
		}
	}, 5*time.Minute, 20*time.Millisecond, "no %s in the banner", name)
	require.Regexp(t, line, p.out.String())

	return line.FindStringSubmatch(p.out.String())[1]
}

// end stops the process as a signal does and returns its error.
func (p *process) end(t *testing.T) error {
	t.Helper()
	p.stop()

	select {
	case err := <-p.done:
		return err
	case <-time.After(5 * time.Minute):
		t.Fatal("does not stop")
		return nil
	}
}

// Every address in the banner answers. A second process cannot use the data folder. The first process stops
// without an error and releases the folder.
func TestEverythingAnswersAfterTheBannerAndStopsCleanly(t *testing.T) {
	t.Parallel()
	p := launch(t, filepath.Join(t.TempDir(), "data"))
	server := p.address(t, "OpenEnv server")
	require.Contains(t, get(t, server+"/health"), "healthy")
	metrics := p.address(t, "Metrics")
	require.Contains(t, get(t, metrics), "temporal_")
	require.Contains(t, get(t, strings.TrimSuffix(metrics, "/metrics")+"/healthz"), "ready")
	require.Contains(t, get(t, p.address(t, "Scripted model")+"/models"), "scripted")
	require.Contains(t, get(t, p.address(t, "Web page")), "<title>rolloutd</title>")
	require.Contains(t, get(t, p.address(t, "Temporal UI")+"/api/v1/settings"), `"Endpoint":"`+server+`/codec"`)
	require.Contains(t, get(t, server+"/web/settings"), p.address(t, "Temporal UI")+"/namespaces/default/workflows/", "the page links to it")
	require.FileExists(t, p.address(t, "Log"))

	second := launch(t, p.data)
	err := <-second.done
	require.ErrorContains(t, err, "in use by")
	require.ErrorContains(t, err, "--data")
	require.NotContains(t, second.out.String(), "is ready")

	require.NoError(t, p.end(t))
	again := launch(t, p.data)
	again.address(t, "OpenEnv server")
	require.NoError(t, again.end(t), "the folder is free again")
}

// A rollout's instruction is encrypted in Temporal's history, and the codec endpoint decrypts it.
func TestUIDecodesWhatHistoriesEncrypt(t *testing.T) {
	t.Parallel()
	p := launch(t, t.TempDir())
	server, ui := p.address(t, "OpenEnv server"), p.address(t, "Temporal UI")
	post(t, server+"/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"start_rollout",
		"arguments":{"instruction":"a secret plan","rollout_id":"r1","endpoint":"scripted"}}}`)

	var history struct {
		History struct {
			Events []struct {
				WorkflowExecutionStartedEventAttributes *struct{ Input json.RawMessage }
			}
		}
	}

	text := get(t, ui+"/api/v1/namespaces/default/workflows/rollout-r1/history")
	require.NotContains(t, text, "a secret plan")
	require.NoError(t, json.Unmarshal([]byte(text), &history))
	input := history.History.Events[0].WorkflowExecutionStartedEventAttributes.Input
	require.NotContains(t, plain(t, input), "a secret plan")
	require.Contains(t, plain(t, post(t, server+"/codec/decode", string(input))), "a secret plan")
	// Only pages of the UI may read decrypted payloads, whatever the UI's port is.
	require.Equal(t, http.StatusOK, decodeFor(t, ui, server, string(input)))
	require.Equal(t, http.StatusForbidden, decodeFor(t, "http://127.0.0.1:8233", server, string(input)))
	post(
		t,
		server+"/mcp",
		`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"abort_rollout","arguments":{"rollout_id":"r1"}}}`,
	)
	post(
		t,
		server+"/mcp",
		`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"finalize_rollout","arguments":{"rollout_id":"r1"}}}`,
	)
	require.NoError(t, p.end(t))
}

// The command temporal runs the embedded server without the roles.
func TestTemporalAlone(t *testing.T) {
	t.Parallel()
	p := launch(t, t.TempDir(), "temporal", "--codec-endpoint", "http://127.0.0.1:1/codec")
	require.Regexp(t, `^127\.0\.0\.1:\d+$`, p.address(t, "Temporal"))
	settings := get(t, p.address(t, "Temporal UI")+"/api/v1/settings")
	require.Contains(t, settings, `"Endpoint":"http://127.0.0.1:1/codec"`)
	require.Contains(t, settings, "serve.codec_origins", "the words of the page when it may not decrypt")
	require.NoError(t, p.end(t))
}

func TestDemoFileIsReadBeforeAnythingStarts(t *testing.T) {
	t.Parallel()
	p := launch(t, t.TempDir(), "--demo", filepath.Join(t.TempDir(), "none.yaml"))
	require.ErrorIs(t, <-p.done, os.ErrNotExist)
	entries, err := os.ReadDir(p.data)
	require.NoError(t, err)
	require.Empty(t, entries)
}

// Without a file, --demo runs the example in the binary.
func TestDemoHasAnExample(t *testing.T) {
	t.Parallel()

	task, err := readDemo(true, nil)
	require.NoError(t, err)
	require.Equal(t, "binary_search", task.ID)
	require.NotEmpty(t, task.Arguments()["verify"])

	task, err = readDemo(false, nil)
	require.NoError(t, err)
	require.Nil(t, task)
}

// plain returns the decoded data of all payloads.
func plain(t *testing.T, payloads []byte) string {
	t.Helper()

	var all struct{ Payloads []struct{ Data []byte } }
	require.NoError(t, json.Unmarshal(payloads, &all))
	require.NotEmpty(t, all.Payloads)

	var out strings.Builder
	for _, p := range all.Payloads {
		out.Write(p.Data)
	}

	return out.String()
}

// decodeFor requests decrypted payloads as a page of an origin does, and returns the status.
func decodeFor(t *testing.T, origin, server, payloads string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(
		t.Context(),
		http.MethodPost,
		server+"/codec/decode",
		strings.NewReader(payloads),
	)
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Origin", origin)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())

	return resp.StatusCode
}

func get(t *testing.T, url string) string {
	t.Helper()
	return string(do(t, http.MethodGet, url, ""))
}

func post(t *testing.T, url, body string) []byte {
	t.Helper()
	return do(t, http.MethodPost, url, body)
}

func do(t *testing.T, method, url, body string) []byte {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)

	defer resp.Body.Close()

	out, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, resp.StatusCode, "%s: %s", url, out)

	return out
}
