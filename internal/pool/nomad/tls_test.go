package nomad_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/pool"
	"github.com/rolloutd/rolloutd/internal/pool/nomad"
	"github.com/rolloutd/rolloutd/internal/testkit/certtest"
)

// startTLS starts the server with a certificate of the authority. The server requires a client certificate.
func startTLS(t *testing.T, ca *certtest.Authority, cert string) (url string) {
	t.Helper()

	pair, err := tls.LoadX509KeyPair(ca.File(cert), ca.File(cert+".key"))
	require.NoError(t, err)

	roots := x509.NewCertPool()
	raw, err := os.ReadFile(ca.File("ca.pem"))
	require.NoError(t, err)
	require.True(t, roots.AppendCertsFromPEM(raw))
	web := httptest.NewUnstartedServer(&server{t: t})
	web.TLS = &tls.Config{
		MinVersion:   tls.VersionTLS12,
		Certificates: []tls.Certificate{pair},
		ClientCAs:    roots,
		ClientAuth:   tls.RequireAndVerifyClientCert,
	}
	// discards the errors of failed handshakes
	web.Config.ErrorLog = log.New(io.Discard, "", 0)
	web.StartTLS()
	t.Cleanup(web.Close)

	return web.URL
}

// authority returns an authority with valid and expired certificates of a server and of a client.
func authority(t *testing.T) *certtest.Authority {
	t.Helper()
	ca, err := certtest.New(t.TempDir())
	require.NoError(t, err)

	for _, name := range []string{"server", "client"} {
		require.NoError(t, ca.Issue(name, name+".key", "server.lab.nomad"))
		require.NoError(t, ca.IssueExpired(name+".old", name+".old.key"))
	}

	return ca
}

// Each side checks the other's certificate. An error names the setting that is wrong.
func TestTLS(t *testing.T) {
	t.Parallel()
	ca, other := authority(t), authority(t)

	valid, expired := startTLS(t, ca, "server"), startTLS(t, ca, "server.old")
	for name, c := range map[string]struct {
		url    string
		change func(*nomad.Access)
		err    string
	}{
		"valid":                {valid, func(*nomad.Access) {}, ""},
		"the server's name":    {valid, func(a *nomad.Access) { a.ServerName = "server.lab.nomad" }, ""},
		"another name":         {valid, func(a *nomad.Access) { a.ServerName = "server.global.nomad" }, "NOMAD_TLS_SERVER_NAME must be"},
		"another authority":    {valid, func(a *nomad.Access) { a.CACert = other.File("ca.pem") }, "NOMAD_CACERT must be"},
		"no authority":         {valid, func(a *nomad.Access) { a.CACert = "" }, "NOMAD_CACERT must be"},
		"not checked":          {valid, func(a *nomad.Access) { a.CACert, a.Insecure = "", true }, ""},
		"no certificate":       {valid, func(a *nomad.Access) { a.ClientCert, a.ClientKey = "", "" }, "NOMAD_CLIENT_CERT and NOMAD_CLIENT_KEY must be"},
		"expired certificate":  {valid, certificate(ca, "client.old"), "NOMAD_CLIENT_CERT and NOMAD_CLIENT_KEY must be"},
		"another's":            {valid, certificate(other, "client"), "NOMAD_CLIENT_CERT and NOMAD_CLIENT_KEY must be"},
		"expired server":       {expired, func(*nomad.Access) {}, "Nomad's certificate is not valid"},
		"no TLS in nomad_addr": {strings.Replace(valid, "https", "http", 1), func(*nomad.Access) {}, "nomad_address is http://"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			access := nomad.Access{
				Token:      "a-token-of-nomad",
				CACert:     ca.File("ca.pem"),
				ClientCert: ca.File("client"),
				ClientKey:  ca.File("client.key"),
			}
			c.change(&access)
			client := dial(t, c.url, access)

			err := observe(t, client)
			if c.err == "" {
				require.NoError(t, err)
				return
			}

			require.ErrorContains(t, err, c.err)
			require.Equal(t, fault.Invalid, fault.KindOf(err), "%v", err)
			require.NotContains(t, err.Error(), access.Token)
			require.Error(t, client.Register(t.Context(), pool.Job{}, map[string]int{"host-0": 1}))
		})
	}

	plain := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(plain.Close)
	_, err := dial(t, strings.Replace(plain.URL, "http", "https", 1), nomad.Access{}).Observe(t.Context())
	require.ErrorContains(t, err, "nomad_address is https://")
	_, err = nomad.New(spec(), nomad.Access{CACert: ca.File("missing")})
	require.ErrorContains(t, err, "NOMAD_CACERT")
	require.Equal(t, fault.Invalid, fault.KindOf(err))
}

// observe returns the error of Observe. A server that refuses a certificate sends an alert and closes the
// connection. If the client is still writing then, it sees only the closed connection, so observe tries
// again.
func observe(t *testing.T, c *nomad.Client) error {
	t.Helper()

	for {
		_, err := c.Observe(t.Context())
		if !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.EPIPE) {
			return err
		}
	}
}

func dial(t *testing.T, url string, a nomad.Access) *nomad.Client {
	t.Helper()

	s := spec()
	s.NomadAddress = url
	c, err := nomad.New(s, a)
	require.NoError(t, err)
	t.Cleanup(c.Close)

	return c
}

func certificate(ca *certtest.Authority, name string) func(*nomad.Access) {
	return func(a *nomad.Access) { a.ClientCert, a.ClientKey = ca.File(name), ca.File(name+".key") }
}
