package network_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/host/network"
	"github.com/rolloutd/rolloutd/internal/network/egress"
)

func allow(t *testing.T, hosts ...string) egress.AllowList {
	t.Helper()

	l, err := egress.ParseAllow(hosts)
	require.NoError(t, err)

	return l
}

func special(t *testing.T, hosts ...string) egress.Policy {
	t.Helper()

	p, err := egress.Parse(hosts)
	require.NoError(t, err)

	return p
}

// exchange sends request on one connection and returns the whole response and the log entry.
func exchange(t *testing.T, o network.ProxyOptions, request string) (string, network.ProxyEntry) {
	t.Helper()

	entries := make(chan network.ProxyEntry, 1)
	o.Record = func(e network.ProxyEntry) { entries <- e }
	client, server := net.Pipe()

	served := make(chan struct{})
	go func() {
		defer close(served)
		defer server.Close()

		network.NewProxy(o).Serve(t.Context(), server)
	}()

	sent := make(chan error, 1)

	go func() {
		_, err := io.WriteString(client, request)
		sent <- err
	}()

	answer, err := io.ReadAll(client)
	require.NoError(t, err)
	<-served
	require.NoError(t, client.Close())
	// the proxy may have ended before it read everything
	<-sent

	select {
	case e := <-entries:
		return string(answer), e
	default:
		return string(answer), network.ProxyEntry{}
	}
}

// echo is a server that returns what it receives.
func echo(t *testing.T) (hostport string) {
	t.Helper()

	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // loopback
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })

	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}

			go func() {
				defer c.Close()
				// a missing line fails the test
				line, _ := bufio.NewReader(c).ReadString('\n')
				_, _ = io.WriteString(c, "echo "+line)
			}()
		}
	}()

	return l.Addr().String()
}

func TestTunnel(t *testing.T) {
	t.Parallel()
	at := echo(t)
	all := network.ProxyOptions{Allow: allow(t, at), Max: allow(t, "*"), Addresses: special(t, at)}
	answer, e := exchange(t, all, "CONNECT "+at+" HTTP/1.1\r\nHost: "+at+"\r\n\r\nhello\n")
	require.Equal(t, "HTTP/1.1 200 Connection established\r\n\r\necho hello\n", answer)
	require.Equal(t, at, fmt.Sprintf("%s:%d", e.Host, e.Port))
	require.Equal(t, at, e.Address)
	require.Equal(t, int64(6), e.Sent)
	require.Equal(t, int64(11), e.Received)
	require.Empty(t, e.Refused+e.Error)
}

func TestPlainRequest(t *testing.T) {
	t.Parallel()

	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// a missing body fails the test
		body, _ := io.ReadAll(r.Body)
		_, _ = fmt.Fprintf(w, "%s %s %q %q", r.Method, r.URL, body, r.Header.Get("Proxy-Authorization"))
	}))
	t.Cleanup(srv.Close)
	at := strings.TrimPrefix(srv.URL, "http://")
	all := network.ProxyOptions{Allow: allow(t, at), Max: allow(t, "*"), Addresses: special(t, at)}
	answer, e := exchange(
		t,
		all,
		"POST "+srv.URL+"/x?y=1 HTTP/1.1\r\nHost: other\r\nProxy-Authorization: Basic x\r\nContent-Length: 3\r\n\r\nabc",
	)
	require.Contains(t, answer, "HTTP/1.1 200 OK\r\n")
	require.Contains(t, answer, `POST /x?y=1 "abc" ""`)
	require.Positive(t, e.Sent)
	require.Positive(t, e.Received)
}

// Special addresses are refused after the name was resolved, whatever the name is and whether or not the
// task's list allows it.
func TestRefused(t *testing.T) {
	t.Parallel()
	at := echo(t)
	_, port, err := net.SplitHostPort(at)
	require.NoError(t, err)
	everything := network.ProxyOptions{
		Allow:     allow(t, "*"),
		Max:       allow(t, "*"),
		Addresses: egress.Policy{}.Setting("sandbox.network.allow_hosts"),
	}

	for _, host := range []string{
		"127.0.0.1", "localhost", "LOCALHOST.", "[::1]", "0.0.0.0", "127.1", "2130706433", "[::ffff:127.0.0.1]", "169.254.169.254",
		"metadata.google.internal", "10.1.2.3", "192.168.0.1", "172.16.0.1", "100.100.100.200", "[fd00::1]", "[64:ff9b::7f00:1]",
	} {
		for _, request := range []string{
			"CONNECT " + host + ":" + port + " HTTP/1.1\r\nHost: example.org:443\r\n\r\n", "GET http://" + host + ":" + port + "/ HTTP/1.1\r\nHost: example.org\r\n\r\n",
		} {
			answer, e := exchange(t, everything, request)
			require.Contains(t, answer, "HTTP/1.1 502", request)
			require.NotEmpty(t, e.Refused, "%q: %+v", request, e)
			require.NotContains(t, answer, "echo")
		}
	}

	answer, e := exchange(t, network.ProxyOptions{
		Allow:     allow(t, "example.org"),
		Max:       allow(t, "*"),
		Addresses: special(t, at),
	}, "CONNECT "+at+" HTTP/1.1\r\n\r\n")
	require.Contains(t, answer, "HTTP/1.1 403 Forbidden")
	require.Contains(t, e.Refused, "is not in the task's network for this phase")
	_, e = exchange(t, network.ProxyOptions{
		Allow:     allow(t, "*"),
		Max:       allow(t, "example.org"),
		Addresses: special(t, at),
	}, "CONNECT "+at+" HTTP/1.1\r\n\r\n")
	require.Contains(t, e.Refused, "is not in the operator's sandbox.network.max")
	_, e = exchange(t, network.ProxyOptions{
		Allow: allow(t, "example.org"),
		Max:   allow(t, "*"),
	}, "CONNECT example.org:22 HTTP/1.1\r\n\r\n")
	require.Contains(t, e.Refused, "example.org:22 is not in")
}

// An IPv6 address needs no port.
func TestAddressWithoutPort(t *testing.T) {
	t.Parallel()

	o := network.ProxyOptions{
		Allow: allow(t, "2001:db8::1"), Max: allow(t, "*"),
		Addresses: egress.Policy{}.Setting("sandbox.network.allow_hosts"),
	}
	_, e := exchange(t, o, "GET http://[2001:db8::1]/ HTTP/1.1\r\nHost: x\r\n\r\n")
	require.Equal(t, "2001:db8::1", e.Host)
	require.EqualValues(t, 80, e.Port)
	require.NotContains(t, e.Refused, "is not in the task's network")
}

func TestBadRequests(t *testing.T) {
	t.Parallel()

	o := network.ProxyOptions{Allow: allow(t, "*"), Max: allow(t, "*")}
	for _, request := range []string{
		"GET / HTTP/1.1\r\nHost: example.org\r\n\r\n", "GET ftp://example.org/ HTTP/1.1\r\n\r\n", "CONNECT example.org:0 HTTP/1.1\r\n\r\n",
		"CONNECT example.org:99999 HTTP/1.1\r\n\r\n", "\x16\x03\x01\x02\x00\x01\r\n\r\n", "GET http:// HTTP/1.1\r\n\r\n",
		"GET http://" + strings.Repeat("a", 70<<10) + "/ HTTP/1.1\r\n\r\n",
	} {
		answer, _ := exchange(t, o, request)
		require.Contains(t, answer, "HTTP/1.1 400", "%.60q", request)
	}
}
