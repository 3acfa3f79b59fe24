package daemon

import (
	"context"
	"log/slog"
	"net"
	"os"
	"slices"
	"sync"

	"github.com/rolloutd/rolloutd/internal/config"
	"github.com/rolloutd/rolloutd/internal/daemon/images"
	"github.com/rolloutd/rolloutd/internal/dockerfile"
	"github.com/rolloutd/rolloutd/internal/driver/local"
	"github.com/rolloutd/rolloutd/internal/host/network"
	"github.com/rolloutd/rolloutd/internal/network/egress"
)

// Builder returns the builder of images of this host. The commands of a build reach the hosts, in the form of
// sandbox.network.max. Its FROM may name images of this host and of the registries that tasks may use.
func Builder(c config.Config, log *slog.Logger, hosts []string) (dockerfile.Builder, error) {
	store, err := images.Open(c, log)
	if err != nil {
		return dockerfile.Builder{}, err
	}

	of := images.New(store, c.Sandbox.Images.Registries, nil)
	b := dockerfile.Builder{Images: store, Pull: func(ctx context.Context, name string) error {
		use, err := of.Use(ctx, name)
		if err != nil {
			return err
		}

		return use.Lock.Close()
	}}

	if b.Network, err = buildNetwork(c, log, hosts); err != nil {
		return b, err
	}

	if os.Geteuid() != 0 {
		// an ordinary user cannot map the users of an image
		return b, nil
	}

	o, err := LocalOptions(c)
	if err != nil {
		return b, err
	}

	o.Logger, o.AgentsDir = log, ""
	b.Runner, err = local.New(o)

	return b, err
}

// buildNetwork returns the network of a build's commands; nil: none.
func buildNetwork(c config.Config, log *slog.Logger, hosts []string) (*dockerfile.Network, error) {
	allow, err := egress.ParseAllow(hosts)
	if err != nil || allow.Empty() {
		return nil, err
	}

	special, err := egress.Parse(c.Sandbox.Network.AllowHosts)
	if err != nil {
		return nil, err
	}

	proxy := network.NewProxy(network.ProxyOptions{
		Allow: allow, Max: allow, Addresses: special.Setting("sandbox.network.allow_hosts"),
		Record: func(e network.ProxyEntry) {
			if e.Refused != "" {
				log.Warn("a command of the build was refused a host", "host", e.Host, "port", e.Port, "why", e.Refused)
			}
		},
	})

	return &dockerfile.Network{
		Hosts: slices.Sorted(slices.Values(hosts)),
		Env:   network.Env(""),
		Serve: func(l net.Listener) { serveProxy(proxy, l) },
	}, nil
}

// serveProxy serves connections until the listener is closed, and ends those that are open then.
func serveProxy(proxy *network.Proxy, l net.Listener) {
	// until the listener is closed, which is the end of the command
	ctx, cancel := context.WithCancel(context.Background())

	var open sync.WaitGroup

	defer open.Wait()
	defer cancel()

	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}

		open.Go(func() {
			defer conn.Close()

			proxy.Serve(ctx, conn)
		})
	}
}
