package main

import (
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/rolloutd/rolloutd/internal/config"
)

// flags are the command's flags; port 0 means any free port.
type flags struct {
	data         string
	file         string
	port         uint16
	mode         string
	temporalPort uint16
	uiPort       uint16

	// 0: as it is
	temporalRetention time.Duration

	portOffset uint16
	noUI       bool
	verbose    bool
	demo       bool
	demoAgent  string
	codec      string
	s          std

	// whether a flag is set
	changed func(name string) bool
}

func (f *flags) registerCommon(cmd *cobra.Command) {
	f.changed = cmd.Flags().Changed
	cmd.Flags().StringVar(&f.data, "data", "", "data folder (default ./.rolloutd, or ROLLOUTD_DATA)")
	cmd.Flags().StringVar(&f.file, "config", "", "configuration file (YAML); the environment overrides it")
	cmd.Flags().Uint16Var(&f.temporalPort, "temporal-port", 7233, "port of the Temporal server")
	cmd.Flags().DurationVar(&f.temporalRetention, "temporal-retention", 0,
		"how long Temporal keeps and lists workflows after their end (default: as it is; 720h at first)")
	cmd.Flags().Uint16Var(&f.uiPort, "ui-port", 8233, "port of the Temporal UI")
	cmd.Flags().Uint16Var(&f.portOffset, "port-offset", 0,
		"add this to every port, for another rolloutd-dev on this machine")
	cmd.Flags().BoolVar(&f.noUI, "no-ui", false, "do not start the Temporal UI")
	cmd.Flags().BoolVarP(&f.verbose, "verbose", "v", false,
		"log to stderr instead of DATA/rolloutd-dev.log, at debug level")
}

func (f *flags) registerDaemon(cmd *cobra.Command) {
	// default: the configuration
	cmd.Flags().Uint16Var(&f.port, "port", 8000, "port of the OpenEnv server")
	cmd.Flags().StringVar(&f.mode, "mode", "",
		"simulation (default) or production, which has no /reset, /step and /state over HTTP")
	cmd.Flags().StringVar(&f.demoAgent, "demo-agent", "", "with --demo: the agent, instead of the task's")
	cmd.Flags().BoolVar(&f.demo, "demo", false,
		"run TASK.yaml with the scripted model after the start, and keep running; without TASK.yaml, an example")
}

// load reads the configuration, applies the flags and validates it.
func (f *flags) load() (config.Config, error) {
	c, err := config.LoadFile(f.file, f.s.env)
	if err != nil {
		return config.Config{}, err
	}

	if f.data != "" {
		c.Data = f.data
	}

	if f.changed("port") {
		c.Serve.Listen = fmt.Sprintf("127.0.0.1:%d", f.port)
	}

	if err := f.shiftPorts(&c); err != nil {
		return config.Config{}, err
	}
	// the models of a laptop
	c.Gateway.AllowHosts = append(c.Gateway.AllowHosts, "127.0.0.0/8", "::1", "localhost")
	if f.mode != "" {
		c.Serve.Mode = f.mode
	}

	if err := c.Validate(); err != nil {
		return config.Config{}, fmt.Errorf("configuration:\n%w", err)
	}

	return c, os.MkdirAll(c.Data, 0o700)
}

// shiftPorts adds the offset to each port that this process listens on.
func (f *flags) shiftPorts(c *config.Config) error {
	addresses := []*string{
		&c.Serve.Listen, &c.Gateway.Listen, &c.Gateway.TrainerListen, &c.Worker.Listen, &c.Worker.ToolsListen,
		&c.Model.Listen, &c.Telemetry.Listen, &c.TrainerAPI.Listen,
	}

	var errs []error

	for _, a := range addresses {
		host, port, err := net.SplitHostPort(*a)

		n, bad := strconv.ParseUint(port, 10, 16)
		if err != nil || bad != nil {
			// Validate reports it
			continue
		}

		shifted, err := shift(uint16(n), f.portOffset)
		errs = append(errs, err)
		*a = net.JoinHostPort(host, strconv.Itoa(int(shifted)))
	}

	var temporal, ui error

	f.temporalPort, temporal = shift(f.temporalPort, f.portOffset)
	f.uiPort, ui = shift(f.uiPort, f.portOffset)

	return errors.Join(append(errs, temporal, ui)...)
}

// shift adds offset to a port; port 0 stays any free port.
func shift(port, offset uint16) (uint16, error) {
	if port == 0 {
		return 0, nil
	}

	if int(port)+int(offset) > math.MaxUint16 {
		return 0, fmt.Errorf("--port-offset: port %d plus %d is above %d", port, offset, math.MaxUint16)
	}

	return port + offset, nil
}
