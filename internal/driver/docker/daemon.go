package docker

import (
	"cmp"
	"net/http"
	"path/filepath"
	"strings"

	"github.com/docker/cli/cli/connhelper"
	"github.com/moby/moby/client"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// Daemon is the address of a daemon.
type Daemon struct {
	// Host is a URL as in DOCKER_HOST: unix:///path, tcp://host:2376, ssh://user@host; "": the socket in /var/run.
	Host string
	// CertPath is a folder with ca.pem, cert.pem and key.pem for TLS to a tcp address; "": no TLS.
	CertPath string
}

// address names the daemon in messages.
func (n Daemon) address() string { return cmp.Or(n.Host, client.DefaultDockerHost) }

// here reports whether the daemon runs on this machine.
func (n Daemon) here() bool { return strings.HasPrefix(n.address(), "unix://") }

// connect returns a client, which connects on first use.
func (n Daemon) connect() (*client.Client, error) {
	opts, err := n.options()
	if err != nil {
		return nil, fault.Field("sandbox.docker.host", "%q: %v", n.Host, err)
	}

	c, err := client.New(opts...)
	if err != nil {
		return nil, fault.Field("sandbox.docker", "%q: %v", n.address(), err)
	}

	return c, nil
}

func (n Daemon) options() ([]client.Opt, error) {
	var opts []client.Opt

	if n.CertPath != "" && strings.HasPrefix(n.Host, "tcp://") {
		at := func(name string) string { return filepath.Join(n.CertPath, name) }
		opts = append(opts, client.WithTLSClientConfig(at("ca.pem"), at("cert.pem"), at("key.pem")))
	}
	// nil unless ssh
	helper, err := connhelper.GetConnectionHelper(n.address())
	if err != nil || helper == nil {
		return append(opts, client.WithHost(n.address())), err
	}

	return []client.Opt{
		client.WithHTTPClient(&http.Client{Transport: &http.Transport{DialContext: helper.Dialer}}),
		client.WithHost(helper.Host), client.WithDialContext(helper.Dialer),
	}, nil
}
