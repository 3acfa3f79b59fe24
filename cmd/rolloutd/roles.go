package main

import (
	"cmp"

	"github.com/spf13/cobra"

	"github.com/rolloutd/rolloutd/internal/cli"
	"github.com/rolloutd/rolloutd/internal/config"
	"github.com/rolloutd/rolloutd/internal/daemon"
	"github.com/rolloutd/rolloutd/internal/daemon/tier"
)

// roles returns the commands that run one role each until they are stopped. Each has its own port for
// metrics, so that all roles run on one host.
func roles(s std) []*cobra.Command {
	serve := role(s, "serve", "Serve OpenEnv clients", "127.0.0.1:9464", daemon.Roles{Serve: true})
	worker := role(
		s,
		"worker",
		"Run rollouts in this host's sandboxes (needs a gateway on the same host)",
		"127.0.0.1:9465",
		daemon.Roles{Worker: true},
	)
	gateway := role(
		s,
		"gateway",
		"Forward and record the model calls of this host's sandboxes",
		"127.0.0.1:9466",
		daemon.Roles{Gateway: true},
	)
	model := role(s, "model", "Serve the scripted model, for demos and tests", "", daemon.Roles{Model: true})
	tools := role(
		s,
		"toolserver",
		"Serve tools (MCP servers, web_search, web_extract) to policies of other hosts",
		"",
		daemon.Roles{ToolServer: true},
	)

	trainer := role(
		s,
		"trainer-api",
		"Serve scored groups to trainers, in the protocol of Atropos' trainer API",
		"",
		daemon.Roles{TrainerAPI: true},
	)

	listenFlag(serve, "OpenEnv server", func(c *config.Config) *string { return &c.Serve.Listen })
	stringFlag(serve, "mode", "simulation (default) or production, which has no /reset, /step and /state over HTTP",
		func(c *config.Config) *string { return &c.Serve.Mode })
	listenFlag(gateway, "admin API", func(c *config.Config) *string { return &c.Gateway.Listen })
	listenFlag(model, "scripted model", func(c *config.Config) *string { return &c.Model.Listen })
	stringFlag(model, "script", "YAML file with the model's replies (default: the built-in demo scripts)",
		func(c *config.Config) *string { return &c.Model.Script })
	listenFlag(tools, "tool server", func(c *config.Config) *string { return &c.ToolServer.Listen })
	stringFlag(worker, "gateway", "URL of this host's gateway (default http://127.0.0.1:7070)",
		func(c *config.Config) *string { return &c.Gateway.URL })
	trainer.changes = append(trainer.changes, func(c *config.Config) {
		c.TrainerAPI.Listen = cmp.Or(c.TrainerAPI.Listen, config.DefaultTrainerAPI)
	})
	listenFlag(trainer, "trainer API", func(c *config.Config) *string { return &c.TrainerAPI.Listen })

	return []*cobra.Command{serve.cmd, worker.cmd, gateway.cmd, model.cmd, tools.cmd, trainer.cmd}
}

// roleCommand is a command whose flags override the configuration.
type roleCommand struct {
	cmd     *cobra.Command
	changes []func(*config.Config)
}

func role(s std, name, short, metrics string, roles daemon.Roles) *roleCommand {
	f := settings{s: s}
	r := &roleCommand{cmd: &cobra.Command{Use: name, Short: short, Args: cli.Arguments(), GroupID: groupRoles}}
	f.register(r.cmd)
	r.cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, err := f.load(func(c *config.Config) {
			if c.Telemetry.Listen == config.Defaults().Telemetry.Listen {
				c.Telemetry.Listen = metrics
			}

			for _, change := range r.changes {
				change(c)
			}
		})
		if err != nil {
			return err
		}

		d := daemon.New(daemon.Options{Config: cfg, Roles: roles, Log: f.log()})

		return tier.Run(cmd.Context(), f.log(), d.Tiers(), d.Ready)
	}

	return r
}

func listenFlag(r *roleCommand, what string, at func(*config.Config) *string) {
	stringFlag(r, "listen", "address of the "+what, at)
}

func stringFlag(r *roleCommand, name, usage string, at func(*config.Config) *string) {
	v := r.cmd.Flags().String(name, "", usage)
	r.changes = append(r.changes, func(c *config.Config) {
		if *v != "" {
			*at(c) = *v
		}
	})
}
