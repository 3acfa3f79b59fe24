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

// Daemon says where a daemon is.
type Daemon struct {
	// Host is a URL as in DOCKER_HOST: unix:///path, tcp://host:2376, ssh://user@host; "": the socket in /var/run.
	Host string
	// CertPath is a folder with ca.pem, cert.pem and key.pem, with which a tcp address is reached by TLS; "": no TLS.
	CertPath string
}

// address names the daemon in messages.
func (n Daemon) address() string { return cmp.Or(n.Host, client.DefaultDockerHost) }

// here says that the address leads to a daemon of this machine.
func (n Daemon) here() bool { return strings.HasPrefix(n.address(), "unix://") }

// connect makes a client, which connects when it is used.
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
	helper, err := connhelper.GetConnectionHelper(n.address()) // nil but for ssh
	if err != nil || helper == nil {
		return append(opts, client.WithHost(n.address())), err
	}
	return []client.Opt{
		client.WithHTTPClient(&http.Client{Transport: &http.Transport{DialContext: helper.Dialer}}),
		client.WithHost(helper.Host), client.WithDialContext(helper.Dialer),
	}, nil
}
