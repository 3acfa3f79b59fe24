package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"syscall"
	"time"

	"github.com/rolloutd/rolloutd/cmd/rolloutd-dev/devserver"
	"github.com/rolloutd/rolloutd/examples"
	"github.com/rolloutd/rolloutd/internal/daemon"
	"github.com/rolloutd/rolloutd/internal/daemon/tier"
	"github.com/rolloutd/rolloutd/internal/filelock"
	"github.com/rolloutd/rolloutd/internal/network/listen"
	"github.com/rolloutd/rolloutd/internal/taskset"
)

// everything runs all roles over the embedded server until ctx ends. args may have the path of the demo's task.
func everything(ctx context.Context, f *flags, args []string) error {
	demo, err := readDemo(f.demo, args)
	if err != nil {
		return err
	}

	cfg, err := f.load()
	if err != nil {
		return err
	}

	log, err := openLogs(f, cfg.Data)
	if err != nil {
		return err
	}
	defer log.Close()

	begin := time.Now()
	d := daemon.New(daemon.Options{
		Config: cfg, Log: log.process, Roles: daemon.Roles{Serve: true, Worker: true, Gateway: true, Model: true},
	})

	var e embedded

	show := newDemoTier(demo, f.demoAgent, nextRun(args), d, f.s.out)

	tiers := []tier.Tier{
		e.serverTier(f, cfg.Data, log.temporal, func(address string) { d.UseTemporal(address, namespace) }),
	}
	if f.noUI {
		d.UseUI()
	} else {
		tiers = append(tiers, e.uiPortTier(f, d.UseUI))
	}

	tiers = append(tiers, d.Tiers()...)
	if !f.noUI {
		tiers = append(tiers, e.uiTier(func() string { return "http://" + d.Addresses().Serve + "/codec" }))
	}

	tiers = append(tiers, show.tier())
	err = tier.Run(ctx, log.process, tiers, func() {
		d.Ready()
		banner(f.s.out, places(d.Addresses(), cfg.Serve.Web, e.ui), cfg.Data, log.where, time.Since(begin))
		show.begin()
	})

	return explain(err, log.where)
}

// nextRun returns arguments of `rolloutd run` for after the demo. Who gave a file has the folder of examples.
func nextRun(args []string) string {
	if len(args) > 0 {
		return "examples/fizzbuzz.yaml --endpoint scripted"
	}

	return "task.yaml --base-url http://gpu-box:8000/v1 --model Qwen/Qwen3.5-4B"
}

// temporalAlone runs the embedded server and its UI until ctx ends.
func temporalAlone(ctx context.Context, f *flags) error {
	if u, err := url.Parse(f.codec); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return fmt.Errorf("--codec-endpoint: must be http://HOST:PORT/codec or https://HOST:PORT/codec, got %q",
			f.codec)
	}

	cfg, err := f.load()
	if err != nil {
		return err
	}

	log, err := openLogs(f, cfg.Data)
	if err != nil {
		return err
	}
	defer log.Close()

	begin := time.Now()

	var e embedded

	tiers := []tier.Tier{e.serverTier(f, cfg.Data, log.temporal, func(string) {})}
	if !f.noUI {
		tiers = append(tiers, e.uiPortTier(f, func(...string) {}), e.uiTier(func() string { return f.codec }))
	}

	err = tier.Run(ctx, log.process, tiers, func() {
		banner(f.s.out, append([]place{{
			"Temporal", e.server.Address(), "",
		}}, uiPlace(e.ui)...), cfg.Data, log.where, time.Since(begin))
	})

	return explain(err, log.where)
}

// explain adds the path of the log, except to errors that say what to do. To the error of a port in use it
// adds the flag that moves all ports.
func explain(err error, log string) error {
	var (
		inUse  *devserver.InUseError
		schema *devserver.SchemaError
		held   *filelock.HeldError
		port   *listen.Error
	)
	if errors.As(err, &port) && errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%w; to start a second rolloutd-dev, move all of its ports with --port-offset", err)
	}

	if err == nil || log == "" || errors.As(err, &inUse) || errors.As(err, &schema) || errors.As(err, &held) ||
		errors.As(err, &port) {
		return err
	}

	return fmt.Errorf("%w\n  (see %s)", err, log)
}

// readDemo reads the task of --demo: the file of the argument, or the example in this binary.
func readDemo(demo bool, args []string) (*taskset.Task, error) {
	if !demo {
		// no demo, no error
		return nil, nil
	}

	if len(args) == 0 {
		file, err := examples.Tasks.Open(examples.Demo)
		if err != nil {
			return nil, err
		}
		defer file.Close()

		task, err := taskset.ReadYAML(file)

		return &task, err
	}

	task, err := taskset.OpenFile(args[0])

	return &task, err
}
