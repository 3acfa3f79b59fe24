package devserver

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"

	uiserver "github.com/temporalio/ui-server/v2/server"
	uiconfig "github.com/temporalio/ui-server/v2/server/config"
	uioptions "github.com/temporalio/ui-server/v2/server/server_options"

	"github.com/rolloutd/rolloutd/internal/listen"
)

// UIOptions of the Temporal web UI.
type UIOptions struct {
	Port      int    // on loopback; 0: any
	Temporal  string // address of the server
	Namespace string // shown first
	Codec     string // URL that decrypts payloads for the browser; empty: none
}

// UI is a running web UI.
type UI struct {
	address string
	inner   *uiserver.Server
	done    chan struct{}
}

// StartUI starts the web UI and returns when it answers.
func StartUI(ctx context.Context, o UIOptions) (*UI, error) {
	port, err := probe(o.Port)
	if err != nil {
		return nil, err
	}
	u := &UI{address: address(port), done: make(chan struct{}), inner: uiserver.NewServer(
		uioptions.WithConfigProvider(&uiconfig.Config{
			TemporalGRPCAddress: o.Temporal,
			Host:                host,
			Port:                port,
			EnableUI:            true,
			DefaultNamespace:    o.Namespace,
			DisableNewsFetch:    true, // the UI must not call out
			HideLogs:            true,
			CORS:                uiconfig.CORS{CookieInsecure: true}, // loopback has no TLS
			Codec:               uiconfig.Codec{Endpoint: o.Codec, DefaultErrorMessage: "the codec of rolloutd does not answer"},
		}),
	)}
	go func() { // ends by Stop
		defer close(u.done)
		_ = u.inner.Start() // never returns an error
	}()
	if err := u.ready(ctx); err != nil {
		u.Stop()
		return nil, err
	}
	return u, nil
}

// probe finds out whether the port is free before the UI does: the UI's own way to say that it is not is to end the process.
func probe(port int) (int, error) {
	l, err := listen.TCP("Temporal UI", address(port), "--ui-port (or leave it out with --no-ui)")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

func (u *UI) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		if answers(ctx, u.URL()+"/api/v1/settings") {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("temporal UI does not answer at %s: %w", u.URL(), ctx.Err())
		case <-tick.C:
		}
	}
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
	u.inner.Stop()
	<-u.done
}
