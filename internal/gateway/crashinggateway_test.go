package gateway_test

import (
	"context"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/gateway"
)

// socket is a Dialer whose only model channel is a unix socket, because thousands of ports would take too long.
type socket struct {
	path  string
	ready chan struct{}
}

func (s socket) ServeModel(ctx context.Context, _ string, h http.Handler, served func()) error {
	l, err := net.Listen("unix", s.path)
	if err != nil {
		return err
	}

	srv := &httptest.Server{Listener: l, Config: &http.Server{Handler: h}}
	srv.Start()
	served()
	close(s.ready)
	<-ctx.Done()
	srv.CloseClientConnections()
	srv.Close()

	return nil
}

// client returns a client that connects to the socket for any address.
func (s socket) client() *http.Client {
	return &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", s.path)
		},
	}}
}

// crashingGateway is a gateway whose disk may fail, and the sandbox's side, which repeats each call until
// it gets a reply.
type crashingGateway struct {
	options gateway.Options
	disk    *limitedDisk
	channel socket
	server  *gateway.Server
	stop    func()
}

// newCrashingGateway starts a gateway on a copy of a host's folder. Its disk fails after the given number of bytes.
func newCrashingGateway(t *testing.T, of *host, bytes int) *crashingGateway {
	t.Helper()

	d := &crashingGateway{options: of.options}
	d.options.Dir = filepath.Join(t.TempDir(), "gateway")
	d.options.Hold = time.Millisecond
	require.NoError(t, os.CopyFS(d.options.Dir, os.DirFS(of.dir)))
	d.start(t, newLimitedDisk(bytes))

	return d
}

func (d *crashingGateway) start(t *testing.T, disk *limitedDisk) {
	t.Helper()

	d.disk, d.channel = disk, socket{filepath.Join(d.options.Dir, "s"), make(chan struct{})}
	d.options.Dialer, d.options.Trace = d.channel, disk.options()

	var err error

	d.server, err = gateway.New(d.options)
	require.NoError(t, err)

	ctx, cancel := context.WithCancel(context.Background())

	over := make(chan error, 1)
	go func() { over <- d.server.Run(ctx) }()

	d.stop = sync.OnceFunc(func() {
		cancel()
		require.NoError(t, <-over)
	})
	t.Cleanup(d.stop)
	await(t, d.channel.ready)
}

// restart starts the gateway again with a disk that does not fail.
func (d *crashingGateway) restart(t *testing.T) {
	t.Helper()
	d.stop()
	d.start(t, newLimitedDisk(math.MaxInt))
}

// ask makes one call. A call can fail only because of the gateway's death, and is then repeated.
func (d *crashingGateway) ask(t *testing.T, id, body string) string {
	t.Helper()

	got := make(chan reply, 1)

	client := d.channel.client()
	go func() { got <- sendBy(t.Context(), client, "http://sandbox", id, body) }()

	var r reply
	select {
	case r = <-got:
	case <-d.disk.died:
		d.stop()

		r = await(t, got)
	}

	if r.err != nil {
		await(t, d.disk.died)
		d.restart(t)

		return d.ask(t, id, body)
	}

	require.Equal(t, http.StatusOK, r.status, r.body)

	return r.body
}
