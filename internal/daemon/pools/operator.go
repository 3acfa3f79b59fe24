package pools

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"

	"go.temporal.io/sdk/client"

	"github.com/rolloutd/rolloutd/internal/config"
	"github.com/rolloutd/rolloutd/internal/pool"
	"github.com/rolloutd/rolloutd/internal/seal"
	"github.com/rolloutd/rolloutd/internal/temporalx"
)

// Operator changes the pools of a deployment from a command.
type Operator struct {
	*Client
	config   config.Config
	key      seal.Key
	temporal client.Client
}

// Dial connects to the deployment's Temporal. The caller closes the operator.
func Dial(ctx context.Context, c config.Config) (*Operator, error) {
	key, err := loadKey(c)
	if err != nil {
		return nil, err
	}

	o := temporalx.Options{
		Key:       key,
		Env:       c.Temporal.Env,
		Address:   c.TemporalAddress(),
		Namespace: c.Temporal.Namespace,
		Logger:    slog.New(slog.DiscardHandler),
	}

	resolved, err := temporalx.ClientOptions(o)
	if err != nil {
		return nil, err
	}

	t, err := temporalx.Dial(ctx, o)
	if err != nil {
		return nil, err
	}

	namespace := cmp.Or(resolved.Namespace, client.DefaultNamespace)

	return &Operator{Client: New(t, namespace, temporalx.DataConverter(key)), config: c, key: key, temporal: t}, nil
}

// loadKey returns the deployment's key. A command never creates one.
func loadKey(c config.Config) (seal.Key, error) {
	if c.EncryptionKey != "" {
		return seal.ParseKey(c.EncryptionKey)
	}

	if _, err := os.Stat(c.KeyFile()); err != nil {
		return seal.Key{}, fmt.Errorf(
			"the deployment's key: %w (set ROLLOUTD_ENCRYPTION_KEY, or --data to the data folder that has it)",
			err,
		)
	}

	return seal.LoadOrCreate(c.KeyFile())
}

// Close ends the connection.
func (o *Operator) Close() { o.temporal.Close() }

// Spec returns a pool of the configuration, with this deployment as its owner.
func (o *Operator) Spec(name string) (pool.Spec, error) {
	s, ok := o.config.Pool(name)
	if !ok {
		return s, fmt.Errorf("pool %s: the configuration has no pools.%s", name, name)
	}

	s.Owner = Owner(o.key, name)

	return s, nil
}
