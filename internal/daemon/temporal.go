package daemon

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"go.temporal.io/sdk/client"

	"github.com/rolloutd/rolloutd/internal/clock"
	"github.com/rolloutd/rolloutd/internal/daemon/pools"
	"github.com/rolloutd/rolloutd/internal/daemon/tier"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/host/hostapi"
	"github.com/rolloutd/rolloutd/internal/temporalx"
)

const (
	// temporalWait is how long the start waits for Temporal, since whole deployments often start at once.
	temporalWait  = time.Minute
	temporalRetry = time.Second
)

// temporalTier connects to Temporal and registers the search attributes.
func (d *Daemon) temporalTier() tier.Tier {
	return tier.Tier{Name: "temporal client", Start: func(ctx context.Context, parts *tier.Parts) error {
		o := temporalx.Options{
			Key: d.key, Env: d.cfg.Temporal.Env, Address: d.cfg.TemporalAddress(), Namespace: d.cfg.Temporal.Namespace,
			Logger: d.log, Metrics: d.tel.Temporal(),
		}

		resolved, err := temporalx.ClientOptions(o)
		if err != nil {
			return err
		}

		d.at.Temporal = cmp.Or(resolved.HostPort, client.DefaultHostPort)
		d.namespace = cmp.Or(resolved.Namespace, client.DefaultNamespace)

		d.temporal, err = d.dial(ctx, o, d.namespace)
		if err != nil {
			return err
		}

		parts.OnClose(func() error { d.temporal.Close(); return nil })

		return nil
	}}
}

// dial retries for temporalWait until Temporal answers and has the search attributes.
func (d *Daemon) dial(ctx context.Context, o temporalx.Options, namespace string) (client.Client, error) {
	ctx, cancel := context.WithTimeout(ctx, temporalWait)
	defer cancel()

	for tries := 0; ; tries++ {
		c, err := connect(ctx, o, namespace)
		if err == nil {
			return c, nil
		}

		if !fault.Is(err, fault.Unavailable) && !fault.Is(err, fault.NotFound) {
			return nil, err
		}

		if tries == 0 {
			d.log.Info("waiting for Temporal", "address", d.at.Temporal, "namespace", namespace, "error", err)
		}

		if clock.Sleep(ctx, temporalRetry) != nil {
			return nil, fmt.Errorf(
				"%w: start one (rolloutd-dev temporal), or set TEMPORAL_ADDRESS and TEMPORAL_NAMESPACE", err)
		}
	}
}

func connect(ctx context.Context, o temporalx.Options, namespace string) (client.Client, error) {
	c, err := temporalx.Dial(ctx, o)
	if err != nil {
		return nil, err
	}

	if err := temporalx.Register(ctx, c.OperatorService(), c, namespace); err != nil {
		c.Close()
		return nil, err
	}

	return c, nil
}

// poolsTier runs the pools of the configuration.
func (d *Daemon) poolsTier() tier.Tier {
	return tier.Tier{Name: "pools", Start: func(_ context.Context, parts *tier.Parts) error {
		return pools.Keeper{
			Config:    d.cfg,
			Key:       d.key,
			Temporal:  d.temporal,
			Namespace: d.namespace,
			Hosts:     hostapi.NewClient(d.store, d.key),
			Log:       d.log,
		}.Start(parts)
	}}
}
