package devserver

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"time"

	uiserver "github.com/temporalio/ui-server/v2/server"
	uiconfig "github.com/temporalio/ui-server/v2/server/config"
	uioptions "github.com/temporalio/ui-server/v2/server/server_options"

	"github.com/rolloutd/rolloutd/internal/clock"
	"github.com/rolloutd/rolloutd/internal/network/listen"
)

// UIOptions of the Temporal web UI.
type UIOptions struct {
	// the result of ListenUI; StartUI closes it
	Listener *net.TCPListener

	// address of the server
	Temporal string

	// shown first
	Namespace string

	// URL that decrypts payloads for the browser; empty: none
	Codec string
}

// UI is a running web UI.
//
// Temporal's UI server checks neither token nor Host header, so a page whose name resolves to 127.0.0.1
// could end workflows through it. It therefore listens on a random loopback address, which such a page
// cannot find. A proxy that checks the Host header listens on the port that people use.
type UI struct {
	inner   *uiserver.Server
	done    chan struct{}
	front   *http.Server
	address string
	ended   chan struct{}
}

// ListenUI listens on the UI's port on loopback; 0: any.
func ListenUI(port int) (*net.TCPListener, error) {
	return listen.TCP("Temporal UI", address(port), "--ui-port (or leave it out with --no-ui)")
}

// StartUI starts the web UI and returns when it answers.
func StartUI(ctx context.Context, o UIOptions) (*UI, error) {
	behind, err := hidden()
	if err != nil {
		return nil, errors.Join(err, o.Listener.Close())
	}

	u := &UI{
		done:    make(chan struct{}),
		ended:   make(chan struct{}),
		address: o.Listener.Addr().String(),
		inner: uiserver.NewServer(
			uioptions.WithConfigProvider(&uiconfig.Config{
				TemporalGRPCAddress: o.Temporal,
				Host:                behind.IP.String(),
				Port:                behind.Port,
				EnableUI:            true,
				DefaultNamespace:    o.Namespace,
				DisableNewsFetch:    true, // the UI must not call out
				HideLogs:            true,
				CORS:                uiconfig.CORS{CookieInsecure: true}, // loopback has no TLS
				Codec: uiconfig.Codec{
					Endpoint:            o.Codec,
					DefaultErrorMessage: "the codec of rolloutd does not answer this page: is rolloutd serve running, and does its serve.codec_origins have the address of this page?",
				},
			}),
		),
	}
	// ends by Stop
	go func() {
		defer close(u.done)
		// never returns an error
		_ = u.inner.Start()
	}()

	u.front = &http.Server{Handler: guarded(behind), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute}
	// ends by Stop
	go func() {
		defer close(u.ended)
		// ends with http.ErrServerClosed
		_ = u.front.Serve(o.Listener)
	}()

	if err := u.ready(ctx); err != nil {
		u.Stop()
		return nil, err
	}

	return u, nil
}

// hidden returns a random free address in 127.0.0.0/8. The address is probed, since the UI ends the process
// if its port is in use.
func hidden() (*net.TCPAddr, error) {
	at := net.TCPAddr{IP: net.IPv4(127, byte(1+rand.IntN(254)), byte(rand.IntN(256)), byte(1+rand.IntN(254)))}

	l, err := net.ListenTCP("tcp", &at)
	if err != nil {
		return nil, fmt.Errorf("temporal UI: %w", err)
	}
	defer l.Close()

	return l.Addr().(*net.TCPAddr), nil
}

// guarded forwards requests whose Host header is a loopback name.
func guarded(behind *net.TCPAddr) http.Handler {
	to := &url.URL{Scheme: "http", Host: behind.String()}
	pass := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(to)
		r.Out.Host = r.In.Host
	}}

	return listen.RequireHost(
		nil,
		func(w http.ResponseWriter, why string) { http.Error(w, why, http.StatusForbidden) },
		pass,
	)
}

func (u *UI) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()

	for !answers(ctx, u.URL()+"/api/v1/settings") {
		if err := clock.Sleep(ctx, 50*time.Millisecond); err != nil {
			return fmt.Errorf("temporal UI does not answer at %s: %w", u.URL(), err)
		}
	}

	return nil
}

func answers(ctx context.Context, url string) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}

	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	defer resp.Body.Close()

	return resp.StatusCode == http.StatusOK
}

// URL is where a browser finds the UI.
func (u *UI) URL() string { return "http://" + u.address }

// Stop ends the UI.
func (u *UI) Stop() {
	// closes the listener, which cannot fail in a way that matters now
	_ = u.front.Close()
	u.inner.Stop()
	<-u.ended
	<-u.done
}
