// Package pools runs the pools of the configuration in a server, and changes them from commands.
package pools

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"

	"github.com/rolloutd/rolloutd/internal/config"
	"github.com/rolloutd/rolloutd/internal/daemon/tier"
	"github.com/rolloutd/rolloutd/internal/pool"
	"github.com/rolloutd/rolloutd/internal/pool/nomad"
	"github.com/rolloutd/rolloutd/internal/seal"
	"github.com/rolloutd/rolloutd/internal/temporalx"
	"github.com/rolloutd/rolloutd/workflows"
)

// Keeper runs the pools of a server.
type Keeper struct {
	Config   config.Config
	Key      seal.Key
	Temporal client.Client

	// namespace of Temporal
	Namespace string
	Hosts     Hosts
	Log       *slog.Logger
}

// Start polls the queue of each pool of the configuration.
func (k Keeper) Start(parts *tier.Parts) error {
	for _, name := range slices.Sorted(maps.Keys(k.Config.Pools)) {
		failed := make(chan error, 1)

		w := k.worker(name, failed)
		if err := w.Start(); err != nil {
			return fmt.Errorf("worker of pool %s: %w", name, err)
		}

		parts.Add(tier.Part{Done: failed, Stop: func(context.Context) error { w.Stop(); return nil }})
	}

	return nil
}

func (k Keeper) worker(name string, failed chan<- error) worker.Worker {
	w := worker.New(k.Temporal, pool.Queue(name), worker.Options{
		MaxConcurrentActivityExecutionSize: 2,
		OnFatalError: func(err error) {
			select {
			case failed <- err:
			default: // the first cause is reported
			}
		},
	})
	workflows.RegisterPool(w)

	access := Access(k.Config)
	c := New(k.Temporal, k.Namespace, temporalx.DataConverter(k.Key))
	(&Activities{
		Job:   func(s pool.Spec) (Job, error) { return nomad.New(s, access) },
		Hosts: k.Hosts, Backlog: c.Backlog, End: c.End, Log: k.Log,
	}).Register(w)

	return w
}

// Access returns the credentials for the Nomad of all pools.
func Access(c config.Config) nomad.Access {
	env := c.NomadEnv
	insecure, err := strconv.ParseBool(env["NOMAD_SKIP_VERIFY"])

	return nomad.Access{
		Token:      env["NOMAD_TOKEN"],
		CACert:     env["NOMAD_CACERT"],
		ClientCert: env["NOMAD_CLIENT_CERT"],
		ClientKey:  env["NOMAD_CLIENT_KEY"],
		ServerName: env["NOMAD_TLS_SERVER_NAME"],
		Insecure:   err == nil && insecure,
	}
}

// Owner is the name of the deployment in the pool's job. It depends on the key, which no other deployment has.
func Owner(key seal.Key, name string) string { return name + "@" + key.Token("pool owner")[:16] }
