package daemon

import (
	"context"
	"log/slog"
	"slices"

	systemd "github.com/coreos/go-systemd/v22/daemon"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"

	"github.com/rolloutd/rolloutd/internal/clock"
	"github.com/rolloutd/rolloutd/internal/config"
	"github.com/rolloutd/rolloutd/internal/daemon/tier"
	"github.com/rolloutd/rolloutd/internal/delivery"
	"github.com/rolloutd/rolloutd/internal/host"
	"github.com/rolloutd/rolloutd/internal/host/timerslack"
	"github.com/rolloutd/rolloutd/internal/image"
	"github.com/rolloutd/rolloutd/internal/seal"
	"github.com/rolloutd/rolloutd/internal/store"
	"github.com/rolloutd/rolloutd/internal/telemetry"
)

// Version is this build's version; the linker sets it.
var Version = "dev"

// NameBuild makes Version the build id of the workers in this process, also of an embedded Temporal server's. Without it
// the first worker reads the whole program for a checksum.
func NameBuild() { worker.SetBinaryChecksum(Version) }

// Roles selects the roles of a process.
type Roles struct{ Serve, Worker, Gateway, Model, ToolServer, TrainerAPI bool }

// Options of a Daemon.
type Options struct {
	// validated
	Config config.Config
	Roles  Roles
	Log    *slog.Logger
}

// Daemon holds the parts of one process. Tiers set most fields at their start, before the tiers that read them start.
type Daemon struct {
	cfg   config.Config
	roles Roles
	log   *slog.Logger

	health *health
	tel    *telemetry.Telemetry
	at     Addresses

	key   seal.Key
	store *store.Store

	// knows whether the store is full
	room *storeWatch

	// the client of Temporal and its namespace; embedded: the server runs in this process
	temporal  client.Client
	namespace string
	embedded  bool

	backends host.Backends

	// the images of the backend local; nil: this host does not have the backend
	images *image.Store

	// bounds the heavy starts of this host
	starts *host.Starts

	// measures suspensions of a process with a worker
	suspended clock.SuspendMonitor

	// this host's id, and whether it takes new sandboxes
	host  string
	drain *host.Drain

	sinks *delivery.Deliverer
}

// Addresses are the addresses of the roles; empty for roles that the process does not have.
type Addresses struct{ Serve, Gateway, Trainer, Model, Metrics, Temporal, ToolServer, TrainerAPI string }

// New prepares a process. It starts nothing.
func New(o Options) *Daemon {
	return &Daemon{cfg: o.Config, roles: o.Roles, log: o.Log, health: newHealth()}
}

// Tiers returns the tiers in the order of their start.
func (d *Daemon) Tiers() []tier.Tier {
	tiers := []tier.Tier{d.telemetryTier(), d.timersTier()}
	// it has no files
	if d.roles != (Roles{ToolServer: true}) {
		tiers = append(tiers, d.dataTier())
	}

	add := func(when bool, t func() tier.Tier) {
		if when {
			tiers = append(tiers, t())
		}
	}
	// a process with both has Temporal, too, which is never at rest
	add(!d.roles.Serve || !d.roles.Worker, memoryTier)
	add(d.roles.Serve || d.roles.Worker, d.temporalTier)
	add(d.roles.Worker || d.roles.Gateway, d.sandboxTier)
	add(d.roles.Gateway, d.gatewayTier)
	add(d.roles.Model, d.modelTier)
	add(d.roles.ToolServer, func() tier.Tier {
		return toolServerTier(d.cfg.ToolServer, d.log, func(address string) { d.at.ToolServer = address })
	})
	add(d.roles.TrainerAPI || d.roles.Serve && d.cfg.TrainerAPI.Listen != "", d.trainerAPITier)
	add(d.roles.Worker, d.workerTier)
	add(d.roles.Serve && len(d.cfg.Pools) > 0, d.poolsTier)
	add(d.roles.Serve, d.serveTier)

	return append(tiers, d.readinessTier())
}

// timersTier raises the timer slack, so that the kernel wakes the process less often.
func (d *Daemon) timersTier() tier.Tier {
	return tier.Tier{Name: "timers", Start: func(context.Context, *tier.Parts) error {
		if err := timerslack.Set(timerslack.Daemon); err != nil {
			// the only cost is some CPU time
			d.log.Debug("timers keep the system's slack", "error", err)
		}

		return nil
	}}
}

// readinessTier starts last and stops first, so that /healthz reports "stopping" while the others stop.
func (d *Daemon) readinessTier() tier.Tier {
	return tier.Tier{Name: "readiness", Start: func(_ context.Context, parts *tier.Parts) error {
		parts.OnClose(func() error { d.health.set("stopping"); return nil })
		return nil
	}}
}

// Ready records that all tiers have started, and tells a systemd that waits for it.
func (d *Daemon) Ready() {
	d.health.set("ready")

	// sandboxes and agents do not inherit the socket
	const unsetSocket = true
	if _, err := systemd.SdNotify(unsetSocket, systemd.SdNotifyReady); err != nil {
		d.log.Warn("systemd was not told that this process is ready", "error", err)
	}

	var at []any
	for _, a := range []struct{ part, address string }{
		{"serve", d.at.Serve}, {"gateway", d.at.Gateway}, {"trainer", d.at.Trainer}, {"model", d.at.Model},
		{"metrics", d.at.Metrics}, {"temporal", d.at.Temporal}, {"tool server", d.at.ToolServer},
		{"trainer_api", d.at.TrainerAPI},
	} {
		if a.address != "" {
			at = append(at, slog.String(a.part, a.address))
		}
	}

	d.log.Info("ready", at...)
}

// Addresses returns the addresses of the roles after their start.
func (d *Daemon) Addresses() Addresses { return d.at }

// Tokens returns the bearer tokens of the OpenEnv server; without any, the server is open.
func (d *Daemon) Tokens() []string { return d.cfg.Serve.Tokens }

// UseUI lets a Temporal UI at the given origins decrypt payloads, and the page link to the first. The origins replace the default ones and
// are added to configured ones. Call it before the serve tier starts.
func (d *Daemon) UseUI(origins ...string) {
	if slices.Equal(d.cfg.Serve.CodecOrigins, config.Defaults().Serve.CodecOrigins) {
		d.cfg.Serve.CodecOrigins = nil
	}

	d.cfg.Serve.CodecOrigins = append(slices.Clone(d.cfg.Serve.CodecOrigins), origins...)

	if d.cfg.Serve.TemporalUI == "" && len(origins) > 0 {
		d.cfg.Serve.TemporalUI = origins[0]
	}
}

// UseTemporal sets the address of an embedded Temporal server, which overrides the configuration. Call it
// before the temporal tier starts.
func (d *Daemon) UseTemporal(address, namespace string) {
	d.cfg.Temporal = config.Temporal{Address: address, Namespace: namespace}
	d.embedded = true
}
