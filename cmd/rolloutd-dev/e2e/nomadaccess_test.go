package e2e

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/pool"
	"github.com/rolloutd/rolloutd/internal/pool/nomad"
	"github.com/rolloutd/rolloutd/internal/testkit/certtest"
)

// The region and the namespace of a Nomad with access control. This Nomad also has the namespace default.
const (
	nomadRegion    = "lab"
	nomadNamespace = "train"
)

// nomadAccess makes a Nomad require tokens and the certificates of its clients.
type nomadAccess struct {
	ca *certtest.Authority

	// a token with all rights
	admin string
}

func newNomadGuard(t *testing.T) *nomadAccess {
	t.Helper()
	ca, err := certtest.New(t.TempDir())
	require.NoError(t, err)
	require.NoError(
		t,
		ca.Issue("agent.pem", "agent.key", "server."+nomadRegion+".nomad", "client."+nomadRegion+".nomad"),
	)
	require.NoError(t, ca.Issue("serve.pem", "serve.key"))
	require.NoError(t, ca.IssueExpired("old.pem", "old.key"))

	return &nomadAccess{ca: ca, admin: uuid.NewString()}
}

// agent returns the guard's part of the configuration of Nomad's agent.
func (g *nomadAccess) agent() string {
	return fmt.Sprintf(`
region = %q
acl { 
  enabled = true
}
tls { 
  http                   = true
  rpc                    = true
  ca_file                = %q
  cert_file              = %q
  key_file               = %q
  verify_server_hostname = true
  verify_https_client    = true
}
`, nomadRegion, g.ca.File("ca.pem"), g.ca.File("agent.pem"), g.ca.File("agent.key"))
}

// client returns the configuration of the test's own client.
func (g *nomadAccess) client(url string) *api.Config {
	return &api.Config{
		Address: url, Region: nomadRegion, Namespace: nomadNamespace, SecretID: g.admin,
		TLSConfig: &api.TLSConfig{
			CACert:     g.ca.File("ca.pem"),
			ClientCert: g.ca.File("serve.pem"),
			ClientKey:  g.ca.File("serve.key"),
		},
	}
}

// open creates the admin's token and the namespace, unless they exist.
func (g *nomadAccess) open(t *testing.T, c *api.Client) {
	t.Helper()
	require.Eventually(t, func() bool {
		// this fails while the agent has no leader, or if the token exists
		_, _, _ = c.ACLTokens().BootstrapOpts(g.admin, nil)
		_, _, err := c.ACLTokens().Self(nil)

		return err == nil
	}, 5*time.Minute, 100*time.Millisecond, "Nomad takes no token")

	_, err := c.Namespaces().Register(&api.Namespace{Name: nomadNamespace}, nil)
	require.NoError(t, err)
}

// token creates a token with the capabilities in a namespace.
func (g *nomadAccess) token(t *testing.T, c *api.Client, namespace, capabilities string) string {
	t.Helper()

	name := uuid.NewString()
	_, err := c.ACLPolicies().Upsert(&api.ACLPolicy{
		Name:  name,
		Rules: fmt.Sprintf(`namespace %q { capabilities = [%s] }`, namespace, capabilities),
	}, nil)
	require.NoError(t, err)
	token, _, err := c.ACLTokens().Create(&api.ACLToken{Name: name, Type: "client", Policies: []string{name}}, nil)
	require.NoError(t, err)

	return token.SecretID
}

// access returns the access of a server to Nomad with a token and a certificate.
func (g *nomadAccess) access(token, cert string) nomad.Access {
	return nomad.Access{
		Token:      token,
		CACert:     g.ca.File("ca.pem"),
		ClientCert: g.ca.File(cert + ".pem"),
		ClientKey:  g.ca.File(cert + ".key"),
	}
}

// env returns the environment of a server with this access.
func (g *nomadAccess) env(token, cert string) []string {
	a := g.access(token, cert)

	return []string{
		"NOMAD_TOKEN=" + a.Token,
		"NOMAD_CACERT=" + a.CACert,
		"NOMAD_CLIENT_CERT=" + a.ClientCert,
		"NOMAD_CLIENT_KEY=" + a.ClientKey,
	}
}

const documentedRights = `"read-job", "submit-job"`

// The rights in docs/nomad.md are enough for a pool. A token without one of them, an unknown token,
// another region, another certificate authority and an expired certificate cause an error that names the
// setting to change. In these cases nothing is written.
func TestNomadRights(t *testing.T) {
	g := newNomadGuard(t)
	a := startNomad(t, nomadOptions{guard: g})
	rights := func(namespace, capabilities string) string { return g.token(t, a.client, namespace, capabilities) }
	enough := rights(nomadNamespace, documentedRights)
	other, err := certtest.New(t.TempDir())
	require.NoError(t, err)

	spec := pool.Spec{
		NomadAddress: a.url,
		Region:       nomadRegion,
		Namespace:    nomadNamespace,
		JobID:        nomadJob,
		Driver:       pool.DriverRawExec,
		Max:          2,
	}.WithDefaults("p")
	spec.Owner = "me"
	none := map[string]int{"host-0": 0, "host-1": 0}
	dial := func(s pool.Spec, access nomad.Access) *nomad.Client {
		c, err := nomad.New(s, access)
		require.NoError(t, err)
		t.Cleanup(c.Close)

		return c
	}
	region, namespace := spec, spec
	region.Region, namespace.Namespace = "elsewhere", "missing"
	trusting := g.access(enough, "serve")

	trusting.CACert = other.File("ca.pem")
	for name, c := range map[string]struct {
		spec   pool.Spec
		access nomad.Access
		want   string
		kind   fault.Kind
	}{
		"no token":            {spec, g.access("", "serve"), "NOMAD_TOKEN", fault.Unauthorized},
		"unknown token":       {spec, g.access(uuid.NewString(), "serve"), "NOMAD_TOKEN", fault.Unauthorized},
		"not a token":         {spec, g.access("not-a-token-of-nomad", "serve"), "NOMAD_TOKEN", fault.Unauthorized},
		"read only":           {spec, g.access(rights(nomadNamespace, `"read-job"`), "serve"), "NOMAD_TOKEN", fault.Unauthorized},
		"submit only":         {spec, g.access(rights(nomadNamespace, `"submit-job"`), "serve"), "NOMAD_TOKEN", fault.Unauthorized},
		"another namespace":   {spec, g.access(rights(api.DefaultNamespace, documentedRights), "serve"), "NOMAD_TOKEN", fault.Unauthorized},
		"another region":      {region, g.access(enough, "serve"), `region is "elsewhere"`, fault.Invalid},
		"missing namespace":   {namespace, g.access(g.admin, "serve"), `namespace is "missing"`, fault.Invalid},
		"another authority":   {spec, trusting, "NOMAD_CACERT", fault.Invalid},
		"expired certificate": {spec, g.access(enough, "old"), "NOMAD_CLIENT_CERT", fault.Invalid},
	} {
		client := dial(c.spec, c.access)

		seen, err := client.Observe(t.Context())
		if err == nil {
			require.False(t, seen.Exists, name)
			err = client.Register(t.Context(), seen, none)
		}

		require.ErrorContains(t, err, c.want, name)
		require.Equal(t, c.kind, fault.KindOf(err), "%s: %v", name, err)

		if c.access.Token != "" {
			require.NotContains(t, err.Error(), c.access.Token, name)
		}

		require.Nil(t, a.job(t, nomadJob), name)
	}

	client := dial(spec, g.access(enough, "serve"))
	require.NoError(t, client.Register(t.Context(), pool.Job{}, none))
	seen, err := client.Observe(t.Context())
	require.NoError(t, err)
	require.True(t, seen.Exists)

	reader := dial(spec, g.access(rights(nomadNamespace, `"read-job"`), "serve"))
	require.ErrorContains(t, reader.Register(t.Context(), seen, none), "NOMAD_TOKEN")
	require.ErrorContains(t, reader.Deregister(t.Context(), seen, true), "NOMAD_TOKEN")
	require.Equal(t, seen.Index, *a.job(t, nomadJob).JobModifyIndex)
	require.NoError(t, client.Deregister(t.Context(), seen, true))
	require.Nil(t, a.job(t, nomadJob))
}

// A pool runs on a Nomad with tokens, mutual TLS, a region and a namespace. The server's token and
// certificate become invalid while hosts run. The hosts keep running, the job does not change, and the
// status has the reason. No log, data folder or stored object contains a token.
func TestNomadPoolWithAccessControl(t *testing.T) {
	g := newNomadGuard(t)
	unknown := uuid.NewString()
	f := startNomadFleet(t, nomadFleetOptions{
		nomad: nomadOptions{guard: g},
		serve: g.env(unknown, "serve"),
		pool:  map[string]any{"region": nomadRegion, "namespace": nomadNamespace},
	})
	f.command("up", "p")
	f.awaitError("NOMAD_TOKEN must be a token with read-job and submit-job in namespace train")
	require.Nil(t, f.nomad.job(t, nomadJob))

	token := g.token(t, f.nomad.client, nomadNamespace, documentedRights)
	f.serve(g.env(token, "serve")...)
	f.await("one host", hostsRun(1))
	f.command("scale", "p", "2")
	f.await("two hosts", hostsRun(2))
	episode := f.play()

	version := *f.nomad.job(t, nomadJob).Version
	for want, env := range map[string][]string{
		"NOMAD_TOKEN":       g.env(unknown, "serve"),
		"NOMAD_CLIENT_CERT": g.env(token, "old"),
	} {
		f.serve(env...)
		f.command("scale", "p", "1")
		f.awaitError(want)
		require.Equal(t, version, *f.nomad.job(t, nomadJob).Version)
		require.Len(t, f.nomad.live(t, nomadJob), 2)
	}

	f.serve(g.env(token, "serve")...)
	f.await("one host", hostsRun(1))
	episode.finish()
	f.command("down", "p")
	f.awaitPurged()
	f.server.stop(t)
	f.requireAbsent(token, unknown, g.admin)
}

// requireAbsent checks that no log, data folder or stored object contains one of the secrets.
func (f *nomadFleet) requireAbsent(secrets ...string) {
	f.t.Helper()

	look := func(path string, text []byte) {
		for _, secret := range secrets {
			require.NotContains(f.t, string(text), secret, path)
		}
	}
	for _, log := range f.logs {
		text, err := os.ReadFile(log)
		require.NoError(f.t, err)
		look(log, text)
	}

	for _, dir := range append(f.data, f.bucket.Dir) {
		everyFile(f.t, dir, look)
	}
}
