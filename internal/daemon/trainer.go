package daemon

import (
	"github.com/rolloutd/rolloutd/internal/config"
	"github.com/rolloutd/rolloutd/internal/gateway"
)

// Trainer speaks to the trainer API of the configuration's gateway, with the key of its data folder.
func Trainer(c config.Config) (*gateway.Trainer, error) {
	key, err := loadKey(c)
	if err != nil {
		return nil, err
	}
	return gateway.NewTrainer(c.TrainerURL(), gateway.TrainerToken(key)), nil
}
