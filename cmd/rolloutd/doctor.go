package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/rolloutd/rolloutd/internal/cli"
	"github.com/rolloutd/rolloutd/internal/cli/doctor"
	"github.com/rolloutd/rolloutd/internal/config"
	"github.com/rolloutd/rolloutd/internal/daemon"
	"github.com/rolloutd/rolloutd/internal/daemon/images"
	"github.com/rolloutd/rolloutd/internal/driver"
	"github.com/rolloutd/rolloutd/internal/driver/docker"
	"github.com/rolloutd/rolloutd/internal/driver/e2b"
	"github.com/rolloutd/rolloutd/internal/driver/local"
	"github.com/rolloutd/rolloutd/internal/image"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/temporalx"
)

// checkers open the drivers of backends in a folder, for their own checks.
var checkers = map[string]func(cfg config.Config, dir string) (driver.Checker, error){
	rollout.DefaultBackend: localChecker,
	daemon.DockerBackend:   dockerChecker,
	daemon.E2BBackend:      e2bChecker,
}

func doctorCommand(s std) *cobra.Command {
	f := settings{s: s}
	cmd := &cobra.Command{
		Use:     "doctor",
		Short:   "Check whether rollouts can run on this machine, and how to fix what prevents it",
		Long:    "Doctor changes nothing. It exits with 1 if rollouts cannot run on this machine.",
		Args:    cli.Arguments(),
		GroupID: groupHosts,
	}
	f.register(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, err := f.load(nil)
		if err != nil {
			return err
		}

		findings := doctor.Run(cmd.Context(), checksOf(cfg)...)
		if !doctor.Print(s.out, findings) {
			return exitError(cli.ExitError)
		}

		return nil
	}

	return cmd
}

// checksOf returns the checks of a configuration.
func checksOf(cfg config.Config) []doctor.Check {
	var checks []doctor.Check

	for _, name := range cfg.Sandbox.BackendNames() {
		if open, ok := checkers[name]; ok {
			mayBeWeak := cfg.Sandbox.AllowWeak && name == rollout.DefaultBackend
			checks = append(checks, doctor.Sandboxes(mayBeWeak, func() (driver.Checker, func(), error) {
				return inTemporary(func(dir string) (driver.Checker, error) { return open(cfg, dir) })
			}))
		}
	}

	return append(checks,
		doctor.Agent(cfg.AgentsDir()),
		doctor.Data(cfg.Data),
		doctor.Disk(cfg.Data, cfg.Store.MinFreeMiB),
		doctor.Store(cfg.StoreURL(), func(ctx context.Context) error { return daemon.CheckStore(ctx, cfg) }),
		doctor.Images(func(ctx context.Context) (looked int, missing []error) {
			looked, all := images.Unavailable(ctx, cfg, slog.New(slog.DiscardHandler))
			for _, m := range all {
				missing = append(missing, fmt.Errorf("%s: %w", m.Image, m.Why))
			}

			return looked, missing
		}),
		doctor.Key(func(ctx context.Context) (string, error) { return daemon.CheckKey(ctx, cfg) }),
		doctor.Warm(cfg.Data, cfg.Sandbox.Warm),
		doctor.Ports(cfg.Telemetry.Listen, ports(cfg)),
		doctor.Temporal(cfg.TemporalAddress(), func(ctx context.Context) error { return reachTemporal(ctx, cfg) }),
		doctor.TemporalAccess(cfg.TemporalAddress(), cfg.Temporal.Secured()),
	)
}

// inTemporary opens a driver in a temporary folder, so that the check leaves nothing in the data folder.
func inTemporary(open func(dir string) (driver.Checker, error)) (d driver.Checker, remove func(), err error) {
	dir, err := os.MkdirTemp("", "rolloutd-doctor-")
	if err != nil {
		return nil, nil, err
	}
	// an error leaves a small folder
	remove = func() { _ = os.RemoveAll(dir) }
	if d, err = open(dir); err != nil {
		remove()
		return nil, nil, err
	}

	return d, remove, nil
}

func localChecker(cfg config.Config, dir string) (driver.Checker, error) {
	o, err := daemon.LocalOptions(cfg)
	if err != nil {
		return nil, err
	}

	o.Dir, o.AgentsDir = dir, ""
	o.Images, o.BridgeDir = emptyImage{dir}, filepath.Join(dir, ".bridge")

	return checker(local.New(o))
}

func dockerChecker(cfg config.Config, dir string) (driver.Checker, error) {
	o, err := daemon.DockerOptions(cfg)
	if err != nil {
		return nil, err
	}

	o.Dir, o.BridgeDir = dir, filepath.Join(dir, ".bridge")

	return checker(docker.New(o))
}

func e2bChecker(cfg config.Config, dir string) (driver.Checker, error) {
	o, err := daemon.E2BOptions(cfg)
	if err != nil {
		return nil, err
	}

	o.Dir = dir

	return checker(e2b.New(o))
}

// checker returns nil with an error: a nil pointer to a driver in the interface would not be nil.
func checker[D driver.Checker](d D, err error) (driver.Checker, error) {
	if err != nil {
		return nil, err
	}

	return d, nil
}

// emptyImage is an image without files, so that the check does not use the images of the host.
type emptyImage struct{ dir string }

// Use implements local.Images.
func (e emptyImage) Use(context.Context, string) (*image.Use, error) {
	layer := filepath.Join(e.dir, ".bridge", "layer")
	if err := os.MkdirAll(layer, 0o755); err != nil {
		return nil, err
	}

	held, err := os.Open(layer)

	return &image.Use{Layers: []string{layer}, Lock: held}, err
}

// ports lists the addresses that rolloutd-dev, or all roles of one machine, listen on.
func ports(cfg config.Config) []doctor.Port {
	all := []doctor.Port{
		{Name: "port OpenEnv", Address: cfg.Serve.Listen, Setting: "ROLLOUTD_LISTEN"},
		{Name: "port gateway", Address: cfg.Gateway.Listen, Setting: "ROLLOUTD_GATEWAY_LISTEN"},
		{Name: "port trainer API", Address: cfg.Gateway.TrainerListen, Setting: "ROLLOUTD_TRAINER_LISTEN"},
		{Name: "port scripted model", Address: cfg.Model.Listen, Setting: "ROLLOUTD_MODEL_LISTEN"},
		{Name: "port metrics", Address: cfg.Telemetry.Listen, Setting: "ROLLOUTD_METRICS_LISTEN"},
	}

	// with a cluster the UI is the cluster's
	if cfg.Temporal.Address == "" {
		all = append(all, doctor.Port{
			Name: "port Temporal UI", Address: "127.0.0.1:8233", Setting: "rolloutd-dev --ui-port",
		})
	}

	return all
}

func reachTemporal(ctx context.Context, cfg config.Config) error {
	c, err := temporalx.Dial(ctx, temporalx.Options{
		Env:       cfg.Temporal.Env,
		Address:   cfg.TemporalAddress(),
		Namespace: cfg.Temporal.Namespace,
	})
	if err != nil {
		return err
	}

	c.Close()

	return nil
}
