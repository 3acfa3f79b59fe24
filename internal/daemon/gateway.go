package daemon

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	"go.opentelemetry.io/otel"

	"github.com/rolloutd/rolloutd/internal/catalog"
	"github.com/rolloutd/rolloutd/internal/config"
	"github.com/rolloutd/rolloutd/internal/daemon/machine"
	"github.com/rolloutd/rolloutd/internal/daemon/tier"
	"github.com/rolloutd/rolloutd/internal/filelock"
	"github.com/rolloutd/rolloutd/internal/gateway"
	"github.com/rolloutd/rolloutd/internal/gateway/admin"
	"github.com/rolloutd/rolloutd/internal/gateway/gatewayapi"
	"github.com/rolloutd/rolloutd/internal/gateway/upstream/limits"
	"github.com/rolloutd/rolloutd/internal/network/egress"
	"github.com/rolloutd/rolloutd/internal/network/listen"
)

// gatewayTier runs the gateway. It locks the folder: two gateways on one journal would both dial every
// sandbox and write every trace.
func (d *Daemon) gatewayTier() tier.Tier {
	return tier.Tier{Name: "gateway", Budget: 10 * time.Second, Start: func(_ context.Context, parts *tier.Parts) error {
		memory := replyMemory(d.cfg.Gateway)
		if d.roles == (Roles{Gateway: true}) {
			relaxGC(memory)
		}

		policy, err := egress.Parse(d.cfg.Gateway.AllowHosts)
		if err != nil {
			return err
		}

		if err := d.lockGateway(parts); err != nil {
			return err
		}

		g, err := gateway.New(gateway.Options{
			Dir:            d.cfg.GatewayDir(),
			Key:            d.key,
			Dialer:         d.backends,
			Logger:         d.log,
			Registerer:     d.tel.Registry(),
			TracerProvider: otel.GetTracerProvider(),
			Egress:         policy,
			Bounds:         boundsOf(d.cfg.Gateway),
			Continuation:   d.cfg.Gateway.ContinuationOf,
			UserTurn:       d.cfg.Gateway.UserTurnOf,
			CacheSalt: func(upstream string) gateway.CacheSalt {
				return gateway.CacheSalt(d.cfg.Gateway.CacheSaltOf(upstream))
			},
			OnEngineFault: d.cfg.Gateway.OnEngineFaultOf,
			RoutedExperts: d.cfg.Gateway.RoutedExpertsOf,
			Audit:         func(upstream string) float64 { return d.cfg.Gateway.Of(d.cfg.Gateway.Audit, upstream) },
			AuditDrop:     d.cfg.Gateway.AuditDrop,
			Endpoints:     catalog.Names(),
			PassThrough:   d.cfg.Gateway.Reply == config.ReplyPassThrough,
			KeepAlive:     d.cfg.Gateway.KeepAlive,
			RawLogprobs:   d.cfg.Gateway.RawLogprobs,
			ReplyMemory:   memory,
			EmptyReplies:  d.cfg.Gateway.EmptyReplies,
		})
		if err != nil {
			return err
		}

		return d.runGateway(parts, g)
	}}
}

// boundsOf returns the configured bounds of each endpoint.
func boundsOf(c config.Gateway) func(string) limits.Bounds {
	return func(name string) limits.Bounds {
		return limits.Bounds{
			Calls: int(c.Of(c.Calls, name)), Rate: c.Of(c.Rate, name), Burst: int(c.Of(c.Burst, name)), Queue: c.Queue,
		}
	}
}

// replyMemory bounds the memory of replies, in bytes: the configured bound, else a quarter of the machine's
// memory, which leaves room for as much garbage and for the sandboxes. If the machine's memory is unknown,
// the smallest bound applies.
func replyMemory(c config.Gateway) int64 {
	const share, least = 4, 1024

	if c.ReplyMemoryMiB > 0 {
		return int64(c.ReplyMemoryMiB) << 20
	}

	total, _ := machine.MemoryMiB()

	return int64(max(total/share, least)) << 20
}

// relaxGC sets GOGC to 400 in a process that is a gateway only. Such a process has a small live heap and
// discards large requests and replies with every call; at the default a seventh of its CPU time is garbage
// collection. The memory limit of twice the bound on replies makes the collector run more often above it.
// The operator's GOGC and GOMEMLIMIT override both.
func relaxGC(replies int64) {
	const percent, overhead = 400, 512 << 20
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(percent)
	}

	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(2*replies + overhead)
	}
}

func (d *Daemon) lockGateway(parts *tier.Parts) error {
	if err := os.MkdirAll(d.cfg.GatewayDir(), 0o700); err != nil {
		return err
	}

	lock, err := filelock.Acquire(filepath.Join(d.cfg.GatewayDir(), ".lock"))
	if err != nil {
		return fmt.Errorf("a data folder has one gateway: %w", err)
	}

	parts.OnClose(lock.Release)

	return nil
}

// runGateway runs the routes, the admin API and the trainer API. The tier ends with the first of them.
func (d *Daemon) runGateway(parts *tier.Parts, g *gateway.Server) error {
	l, err := listen.TCP("the gateway", d.cfg.Gateway.Listen, "gateway.listen (ROLLOUTD_GATEWAY_LISTEN)")
	if err != nil {
		return err
	}

	parts.AddListener(l)

	forTrainers, err := listen.TCP(
		"the trainer API",
		d.cfg.Gateway.TrainerListen,
		"gateway.trainer_listen (ROLLOUTD_TRAINER_LISTEN)",
	)
	if err != nil {
		return err
	}

	d.at.Gateway, d.at.Trainer = l.Addr().String(), forTrainers.Addr().String()
	// port 0 means any free port
	d.cfg.Gateway.Listen = d.at.Gateway
	api := admin.New(g, admin.Options{Key: d.key, TrainerTokens: d.cfg.Gateway.TrainerTokens, Logger: d.log})

	parts.Add(tier.Background(g.Run))
	parts.Add(tier.ServeWith(l, api.Handler(), gatewayapi.Accept))
	parts.Add(tier.ServeHTTP(forTrainers, api.TrainerHandler()))

	return nil
}
