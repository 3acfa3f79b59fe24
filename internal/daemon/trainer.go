package daemon

import (
	"errors"
	"os"

	"github.com/rolloutd/rolloutd/internal/config"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/gateway/gatewayapi"
	"github.com/rolloutd/rolloutd/internal/seal"
)

// Trainer returns a client of the trainer API of the configuration's gateway, with the key of its data
// folder. It creates no key, since the gateway would refuse another one.
func Trainer(c config.Config) (*gatewayapi.Trainer, error) {
	key, err := deploymentKey(c)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fault.New(fault.NotFound,
			"no key in %s: set the gateway's data folder with --data, or its key with ROLLOUTD_ENCRYPTION_KEY",
			c.Data)
	}

	if err != nil {
		return nil, err
	}

	return gatewayapi.NewTrainer(c.TrainerURL(), gatewayapi.TrainerToken(key)), nil
}

func deploymentKey(c config.Config) (seal.Key, error) {
	if c.EncryptionKey != "" {
		return seal.ParseKey(c.EncryptionKey)
	}

	return seal.Load(c.KeyFile())
}
