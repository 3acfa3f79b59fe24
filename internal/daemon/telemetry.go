package daemon

import (
	"context"
	"net/http"

	"github.com/rolloutd/rolloutd/internal/config"
	"github.com/rolloutd/rolloutd/internal/daemon/tier"
	"github.com/rolloutd/rolloutd/internal/network/listen"
	"github.com/rolloutd/rolloutd/internal/telemetry"
)

// telemetryTier starts first and stops last.
func (d *Daemon) telemetryTier() tier.Tier {
	return tier.Tier{Name: "telemetry", Start: func(ctx context.Context, parts *tier.Parts) error {
		t := d.cfg.Telemetry

		var err error

		d.tel, err = telemetry.New(ctx, telemetry.Options{
			Service: t.Service, Version: Version, Endpoint: t.OTLPEndpoint,
			OnError: func(err error) { d.log.Warn("telemetry", "error", err) },
		})
		if err != nil {
			return err
		}

		parts.OnStop(d.tel.Shutdown)
		d.tel.Install()

		if t.Listen == "" {
			return nil
		}

		l, err := listen.TCP("the metrics page", t.Listen, "telemetry.listen (ROLLOUTD_METRICS_LISTEN)")
		if err != nil {
			return err
		}

		d.at.Metrics = l.Addr().String()
		mux := http.NewServeMux()
		mux.Handle("GET /metrics", d.tel.Handler())
		mux.Handle("GET /healthz", d.health)

		var page http.Handler = mux
		// beyond loopback a collector may know this host by any name
		if config.Loopback(t.Listen) {
			page = tier.OwnHost(d.cfg.Serve.Hosts, mux)
		}

		parts.Add(tier.ServeHTTP(l, page))

		return nil
	}}
}
