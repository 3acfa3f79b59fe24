package main

import (
	"context"
	"log/slog"
	"net"
	"strconv"
	"time"

	"github.com/rolloutd/rolloutd/cmd/rolloutd-dev/devserver"
	"github.com/rolloutd/rolloutd/internal/daemon/tier"
	"github.com/rolloutd/rolloutd/internal/temporalx/searchattr"
)

const namespace = "default"

// embedded is the Temporal server and UI of this process, set when their tiers have started.
type embedded struct {
	server *devserver.Server

	// listener of the UI; nil: there is no UI
	front *net.TCPListener

	// nil: disabled
	ui *devserver.UI
}

// serverTier starts first: its lock protects the data folder.
func (e *embedded) serverTier(f *flags, data string, log *slog.Logger, up func(address string)) tier.Tier {
	return tier.Tier{
		Name:   "Temporal server",
		Budget: 20 * time.Second,
		Start: func(ctx context.Context, parts *tier.Parts) error {
			var err error

			e.server, err = devserver.Start(ctx, devserver.Options{
				Dir: data, Port: int(f.temporalPort), Namespace: namespace, Retention: f.temporalRetention,
				SearchAttributes: searchattr.Types(), Log: log,
			})
			if err != nil {
				return err
			}

			up(e.server.Address())

			parts.Add(tier.Part{Done: e.server.Failed(), Stop: e.server.Stop})

			return nil
		},
	}
}

// uiPortTier opens the UI's port before the server that decrypts for the UI starts, since that server must
// know the UI's origin.
func (e *embedded) uiPortTier(f *flags, at func(origins ...string)) tier.Tier {
	return tier.Tier{Name: "port of the Temporal UI", Start: func(_ context.Context, parts *tier.Parts) error {
		var err error
		if e.front, err = devserver.ListenUI(int(f.uiPort)); err != nil {
			return err
		}

		port := strconv.Itoa(e.front.Addr().(*net.TCPAddr).Port)
		at("http://127.0.0.1:"+port, "http://localhost:"+port)

		parts.AddListener(e.front)

		return nil
	}}
}

// uiTier starts last, when the address of the codec endpoint is known.
func (e *embedded) uiTier(codec func() string) tier.Tier {
	return tier.Tier{Name: "Temporal UI", Start: func(ctx context.Context, parts *tier.Parts) error {
		var err error

		e.ui, err = devserver.StartUI(ctx, devserver.UIOptions{
			Listener: e.front, Temporal: e.server.Address(), Namespace: namespace, Codec: codec(),
		})
		if err != nil {
			return err
		}

		parts.OnClose(func() error { e.ui.Stop(); return nil })

		return nil
	}}
}
