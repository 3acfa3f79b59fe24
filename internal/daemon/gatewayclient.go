package daemon

import (
	"github.com/rolloutd/rolloutd/internal/config"
	"github.com/rolloutd/rolloutd/internal/gateway"
)

// GatewayClient speaks to the gateway of the configuration, with the key of its data folder.
func GatewayClient(c config.Config) (*gateway.Client, error) {
	key, err := loadKey(c)
	if err != nil {
		return nil, err
	}
	return gateway.NewClient(c.GatewayURL(), key), nil
}
