package config

import (
	"fmt"
	"path/filepath"
)

// TrainerAPI serves scored groups to trainers in the protocol of Atropos.
type TrainerAPI struct {
	// empty: serve has none, and trainer-api listens on DefaultTrainerAPI
	Listen string `yaml:"listen"`

	// bearer tokens; required for a listener beyond loopback
	Tokens []string `yaml:"tokens"`
	// Hosts are names, beside localhost, by which clients reach an API without tokens; requests for other
	// names are refused.
	Hosts []string `yaml:"hosts"`
}

// DefaultTrainerAPI is the address of the role trainer-api.
const DefaultTrainerAPI = "127.0.0.1:8001"

// TrainerQueueFile holds the groups of the trainer API.
func (c Config) TrainerQueueFile() string { return filepath.Join(c.Data, "trainer", "queue.db") }

func (t TrainerAPI) validate(p *problems) {
	if t.Listen == "" {
		return
	}

	p.address("trainer_api.listen", t.Listen)
	p.check(len(t.Tokens) > 0 || Loopback(t.Listen), "trainer_api.tokens",
		"%s can be reached from other machines: set at least one bearer token (ROLLOUTD_TRAINER_API_TOKENS), or listen on 127.0.0.1",
		t.Listen)

	for i, token := range t.Tokens {
		p.check(len(token) >= minToken, fmt.Sprintf("trainer_api.tokens[%d]", i),
			"must have at least %d characters", minToken)
	}
}
