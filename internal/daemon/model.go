package daemon

import (
	"context"
	"fmt"
	"os"

	"github.com/rolloutd/rolloutd/internal/daemon/tier"
	"github.com/rolloutd/rolloutd/internal/network/listen"
	"github.com/rolloutd/rolloutd/internal/scripted"
)

// modelTier serves the scripted model.
func (d *Daemon) modelTier() tier.Tier {
	return tier.Tier{Name: "scripted model", Start: func(_ context.Context, parts *tier.Parts) error {
		scripts, err := loadScripts(d.cfg.Model.Script)
		if err != nil {
			return err
		}

		l, err := listen.TCP("the scripted model", d.cfg.Model.Listen, "model.listen (ROLLOUTD_MODEL_LISTEN)")
		if err != nil {
			return err
		}

		d.at.Model = l.Addr().String()
		// port 0 means any free port
		d.cfg.Model.Listen = d.at.Model

		parts.Add(tier.ServeHTTP(l, scripted.New(scripted.Options{Scripts: scripts})))

		return nil
	}}
}

// loadScripts reads a script file; an empty path means the built-in scripts.
func loadScripts(path string) (scripted.Scripts, error) {
	if path == "" {
		return scripted.Default(), nil
	}

	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("model.script (ROLLOUTD_MODEL_SCRIPT): %w", err)
	}
	defer f.Close()

	s, err := scripted.Load(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}

	return s, nil
}
