package network_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/driver"
	"github.com/rolloutd/rolloutd/internal/driver/local"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/host/network"
	"github.com/rolloutd/rolloutd/internal/network/egress"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandbox"
	"github.com/rolloutd/rolloutd/internal/sandbox/sandboxtest"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

// fetch is a bash script that prints the first line of the proxy's response to a request for a page.
const fetch = `at=${http_proxy#http://}; exec 3<>"/dev/tcp/${at%:*}/${at#*:}" && printf 'GET http://%s/ HTTP/1.1\r\n\r\n' "$1" >&3 && head -n 1 <&3`

func newSandbox(t *testing.T) (*sandbox.Backend, *sandbox.Sandbox) {
	t.Helper()
	sandboxd, err := sandboxtest.BuildSandboxd(t.Context(), t.TempDir())
	require.NoError(t, err)
	d, err := local.New(local.Options{SandboxdPath: sandboxd, Dir: filepath.Join(t.TempDir(), "sandboxes")})
	require.NoError(t, err)

	b := sandbox.New(d, sandbox.Options{Defaults: driver.Spec{HomeMiB: 64, TmpMiB: 64, MemoryMiB: 512, PIDs: 128}})
	id := "network-" + rand.Text()
	sb, err := b.Create(t.Context(), id, rollout.Sandbox{}, nil)
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
		defer cancel()

		require.NoError(t, b.Destroy(ctx, id))
	})

	return b, sb
}

func page(t *testing.T) string {
	t.Helper()

	srv := httptest.NewServer(
		http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "page") }),
	)
	t.Cleanup(srv.Close)

	return strings.TrimPrefix(srv.URL, "http://")
}

// While it is served, a sandbox reaches only the hosts that its phase allows. Each connection is logged.
func TestServe(t *testing.T) {
	t.Parallel()
	b, sb := newSandbox(t)
	one, two := page(t), page(t)
	special, err := egress.Parse([]string{one, two})
	require.NoError(t, err)
	most, err := egress.ParseAllow([]string{"*"})
	require.NoError(t, err)
	s := &network.Service{
		Dir:       filepath.Join(t.TempDir(), "network"),
		Max:       most,
		Addresses: special,
		Logger:    slog.New(slog.DiscardHandler),
	}
	calls := 0
	get := func(host string) string {
		calls++
		r, err := sb.WithEnv(network.Env("")).
			Exec(t.Context(), fmt.Sprintf("get-%d", calls), wire.Exec{Process: wire.Process{Argv: []string{"bash", "-c", fetch, "bash", host}}})
		require.NoError(t, err)

		return strings.TrimSpace(string(r.Stdout.Head) + string(r.Stderr.Head))
	}

	require.Equal(t, "localhost,127.0.0.1,::1,db,cache", network.Env("db,cache")["no_proxy"], "services are beside it")
	require.Contains(t, get(one), "refused")
	stop, err := s.Serve(t.Context(), b, sb.ID(), network.Setup, []string{one})
	require.NoError(t, err)
	require.Equal(t, "HTTP/1.1 200 OK", get(one))
	require.Equal(t, "HTTP/1.1 403 Forbidden", get(two))
	stop()
	stop, err = s.Serve(t.Context(), b, sb.ID(), network.Agent, []string{two, "169.254.169.254"})
	require.NoError(t, err)
	require.Equal(t, "HTTP/1.1 200 OK", get(two))
	require.Equal(t, "HTTP/1.1 403 Forbidden", get(one))
	require.Equal(t, "HTTP/1.1 502 Bad Gateway", get("169.254.169.254"))
	stop()

	log, err := s.Log(sb.ID())
	require.NoError(t, err)

	defer log.Close()

	var seen []string

	for d := json.NewDecoder(log); d.More(); {
		var e struct {
			Phase, Host, Refused string
			Port                 int
			Received             int `json:"received_bytes"`
		}
		require.NoError(t, d.Decode(&e))
		require.Equal(t, e.Refused == "", e.Received > 0)
		seen = append(seen, fmt.Sprintf("%s %s:%d %t", e.Phase, e.Host, e.Port, e.Refused == ""))
	}

	require.ElementsMatch(
		t,
		[]string{
			"setup " + one + " true",
			"setup " + two + " false",
			"agent " + two + " true",
			"agent " + one + " false",
			"agent 169.254.169.254:80 false",
		},
		seen,
	)
	since, err := sb.Since(t.Context())
	require.NoError(t, err)
	require.NoError(t, s.ForgetEarlier(sb.ID(), since))
	require.FileExists(t, filepath.Join(s.Dir, sb.ID()+".jsonl"))
	require.NoError(t, s.ForgetEarlier(sb.ID(), time.Now().Add(time.Minute)))
	require.NoFileExists(t, filepath.Join(s.Dir, sb.ID()+".jsonl"), "it is of an earlier sandbox")
	require.NoError(t, s.ForgetEarlier(sb.ID(), since))

	require.NoError(t, s.Forget(sb.ID()))
	_, err = s.Log(sb.ID())
	require.True(t, fault.Is(err, fault.NotFound), "%v", err)
	_, err = s.Serve(t.Context(), b, sb.ID()+"x", network.Agent, []string{one})
	require.True(t, fault.Is(err, fault.SandboxLost), "%v", err)
	_, err = s.Serve(t.Context(), b, sb.ID(), network.Agent, []string{"10.0.0.0/8"})
	require.True(t, fault.Is(err, fault.Invalid), "%v", err)
}

// taken is the channel of a sandbox in which a process of the task has the address of the proxy.
type taken struct{}

func (taken) ServeNetwork(context.Context, string, func(), func(context.Context, io.ReadWriteCloser)) error {
	return fault.New(fault.Conflict, "address already in use")
}

// A task whose own process has the address of the proxy fails at once, and not when its time is up.
func TestServeBesideAListener(t *testing.T) {
	t.Parallel()
	s := &network.Service{Dir: t.TempDir(), Logger: slog.New(slog.DiscardHandler)}
	_, err := s.Serve(t.Context(), taken{}, "r.1", "setup", []string{"example.com"})
	require.Equal(t, fault.SetupFailed, fault.KindOf(err), "%v", err)
	require.ErrorContains(t, err, "127.0.0.1:7001")
}
