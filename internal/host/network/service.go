// Package network lets the processes of a sandbox reach the hosts that its task names, through an HTTP
// proxy on this host. The sandbox itself has no network: connections come over its control connection. The
// network is open while a Serve of the sandbox runs, and not otherwise.
package network

import (
	"context"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/rolloutd/rolloutd/internal/clock"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/network/egress"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

// Phases of a rollout that may have a network of their own.
const (
	Setup = "setup"
	Agent = "agent"

	// in the agent's own sandbox, with the agent's hosts
	Grading = "grading"
)

// Channel opens the network channel of a sandbox; *sandbox.Backend documents the method.
type Channel interface {
	ServeNetwork(ctx context.Context, id string, open func(), serve func(context.Context, io.ReadWriteCloser)) error
}

// Service serves the sandboxes of one host. It is safe for concurrent use.
type Service struct {
	// folder of the logs of connections
	Dir string

	// what any task may reach
	Max egress.AllowList

	// special addresses that the operator allows
	Addresses egress.Policy
	Logger    *slog.Logger
}

// Env is the environment by which programs find the proxy. The names of services, joined by commas, are those of hosts
// beside the sandbox, which programs reach without it.
func Env(services string) map[string]string {
	const at = "http://" + wire.NetworkAddr

	direct := "localhost,127.0.0.1,::1"
	if services != "" {
		direct += "," + services
	}

	return map[string]string{
		"http_proxy":  at,
		"https_proxy": at,
		"HTTP_PROXY":  at,
		"HTTPS_PROXY": at,
		"no_proxy":    direct,
		"NO_PROXY":    direct,
	}
}

// Serve opens the network of a sandbox to the allowed hosts until stop is called, which ends all
// connections. It returns when the network is open. It is opened again when the channel breaks. A sandbox in which a
// process of the task listens in place of the proxy is a fault.SetupFailed.
func (s *Service) Serve(ctx context.Context, c Channel, id, phase string, allow []string) (stop func(), err error) {
	list, err := egress.ParseAllow(allow)
	if err != nil {
		return nil, fault.Field("network.allow", "%v", err)
	}

	log, err := s.open(id)
	if err != nil {
		return nil, fault.Wrap(fault.Unavailable, err, "log of connections")
	}

	p := NewProxy(ProxyOptions{
		Allow:     list,
		Max:       s.Max,
		Addresses: s.Addresses,
		Record:    func(e ProxyEntry) { log.add(phase, e) },
	})
	ctx, cancel := context.WithCancel(ctx)
	opened := make(chan struct{})
	lost := make(chan error, 1)

	var running sync.WaitGroup
	running.Go(func() { lost <- s.serveSandbox(ctx, c, id, sync.OnceFunc(func() { close(opened) }), p) })

	stop = func() {
		cancel()
		running.Wait()

		if err := log.close(); err != nil {
			s.Logger.Warn("log of connections", "sandbox", id, "error", err)
		}
	}

	select {
	case <-opened:
		return stop, nil
	case err = <-lost:
	}

	stop()

	return nil, err
}

// serveSandbox serves until ctx ends or the sandbox is gone.
func (s *Service) serveSandbox(ctx context.Context, c Channel, id string, open func(), p *Proxy) error {
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, 2*time.Second) {
		err := c.ServeNetwork(ctx, id, func() { pause = 50 * time.Millisecond; open() }, p.Serve)
		if ctx.Err() != nil {
			return fault.Wrap(fault.Unavailable, context.Cause(ctx), "open the network of sandbox %q", id)
		}

		switch {
		case fault.Is(err, fault.SandboxLost), fault.Is(err, fault.NotFound):
			return err
		case fault.Is(err, fault.Conflict):
			return fault.Wrap(fault.SetupFailed, err,
				"a process of the task listens on %s, the address of the proxy", wire.NetworkAddr)
		}

		s.Logger.DebugContext(ctx, "network channel broke", "sandbox", id, "error", err)
		// the next turn of the loop sees ctx's end
		_ = clock.Sleep(ctx, pause)
	}
}
