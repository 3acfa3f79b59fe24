package main

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"slices"

	"github.com/spf13/cobra"

	"github.com/rolloutd/rolloutd/internal/cli"
	"github.com/rolloutd/rolloutd/internal/cli/client"
	"github.com/rolloutd/rolloutd/internal/config"
	hostimages "github.com/rolloutd/rolloutd/internal/daemon/images"
	"github.com/rolloutd/rolloutd/internal/dockerfile"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/image"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/taskset"
)

func tasksBuildCommand(s std) *cobra.Command {
	f := settings{s: s}

	var (
		sel   selectFlags
		build buildFlags
	)

	cmd := &cobra.Command{
		Use:   "build SET",
		Short: "Build the images of the tasks of a set that have a Dockerfile, on this host",
		Long: aboutSets + "\n\nBuild builds the images that this host does not have, as image build does. tasks check --oracle, --nop and run do\n" +
			"so too if the server is on this machine. On another machine, build there.",
		Example: "  rolloutd tasks build ./terminal-bench --network \"*\"",
		Args:    cli.Arguments("SET"),
	}
	f.register(cmd)
	sel.register(cmd)
	build.register(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		set, chosen, cfg, err := f.openSet(args[0], sel)
		if err != nil {
			return err
		}
		defer set.Close()

		b := taskImages{s: s, settings: f, cfg: cfg, flags: build}
		broken := 0

		for _, i := range chosen {
			t, err := set.Task(i)
			if err == nil {
				err = b.build(cmd.Context(), t)
			}

			if err != nil {
				broken++

				fmt.Fprintf(s.out, "broken  %-28s %v\n", set.Name(i), err)
			}
		}

		fmt.Fprintf(s.out, "tasks: %d, images built: %d, problems: %d\n", len(chosen), b.built, broken)

		if broken > 0 {
			return exitError(cli.ExitError)
		}

		return nil
	}

	return cmd
}

// taskImages builds the images of tasks that have a Dockerfile.
type taskImages struct {
	s        std
	settings settings
	cfg      config.Config
	flags    buildFlags
	built    int
}

// build builds the images of a task that this host does not have.
func (b *taskImages) build(ctx context.Context, t taskset.Task) error {
	for _, build := range t.Builds() {
		if err := b.buildOne(ctx, *build); err != nil {
			return err
		}
	}

	return nil
}

// buildAll builds the images of tasks, names those whose image cannot be built, and returns the others.
func (b *taskImages) buildAll(ctx context.Context, tasks []taskset.Task) []taskset.Task {
	return slices.DeleteFunc(tasks, func(t taskset.Task) bool {
		err := b.build(ctx, t)
		if err != nil {
			fmt.Fprintf(b.s.out, "broken  %-28s %v\n", t.Name, err)
		}

		return err != nil
	})
}

func (b *taskImages) buildOne(ctx context.Context, t taskset.Build) error {
	store, err := hostimages.Open(b.cfg, b.settings.log())
	if err != nil {
		return err
	}

	_, err = store.Find(t.Image)
	if err == nil && b.dockerLacks(ctx, t.Image) {
		err = fault.New(fault.NotFound, "%s is not in the Docker daemon", t.Image)
	}

	if !fault.Is(err, fault.NotFound) {
		return err
	}

	// a server with another data folder has other images
	fmt.Fprintf(b.s.err, "build %s of %s for the data folder %s (once; at most %s)\n", t.Image, t.Folder, b.cfg.Data, t.Timeout)

	timeout := t.Timeout
	if b.flags.timeout != 0 {
		timeout = b.flags.timeout
	}

	i, err := b.flags.image(ctx, b.cfg, b.settings.log(), dockerfile.Job{
		Folder: t.Folder, Dockerfile: t.Dockerfile, Name: t.Image, Args: t.Args, Output: b.s.err, Timeout: timeout,
	})
	if err != nil {
		return fmt.Errorf("%s: %w", t.Folder, err)
	}

	b.built++

	return added(b.s.err, i, t.Image)
}

// dockerLacks reports whether the daemon of the backend docker lacks an image, for instance since users of its containers are
// mapped: it keeps its own images.
func (b *taskImages) dockerLacks(ctx context.Context, name string) bool {
	_, has := b.cfg.Sandbox.Backends[rollout.BackendDocker]
	return has && image.DockerLacks(ctx, name, dockerEnv(b.cfg.Sandbox.Docker))
}

// buildImages builds the images of tasks that a server on this machine is to run, with the configuration of this
// environment.
func buildImages(ctx context.Context, s std, c *client.Client, tasks []taskset.Task) error {
	needed := slices.ContainsFunc(tasks, func(t taskset.Task) bool { return len(t.Builds()) > 0 })
	if !needed || !onThisMachine(c) {
		return nil
	}

	b := taskImages{s: s, settings: settings{s: s}}

	var err error
	if b.cfg, err = b.settings.load(nil); err != nil {
		return err
	}

	for _, t := range tasks {
		if err := b.build(ctx, t); err != nil {
			return err
		}
	}

	return nil
}

// onThisMachine reports whether a server is on this machine. Images for a server elsewhere are built there.
func onThisMachine(c *client.Client) bool {
	u, err := url.Parse(c.URL)
	if err != nil {
		return false
	}

	name := u.Hostname()

	return name == "localhost" || net.ParseIP(name).IsLoopback()
}
