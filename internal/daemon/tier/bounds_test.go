package tier_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/daemon/tier"
	"github.com/rolloutd/rolloutd/internal/network/listen"
)

// bounded starts a server that returns "here" and accepts at most limit connections.
func bounded(t *testing.T, limit int) (address string) {
	t.Helper()

	l, err := listen.TCP("test", "127.0.0.1:0", "--port")
	require.NoError(t, err)

	r := tier.ServeHTTP(listen.Limit(l, limit), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		listen.Trust(r.Context())

		_, _ = io.WriteString(w, "here")
	}))

	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()

		require.NoError(t, r.Stop(ctx))
	})

	return l.Addr().String()
}

// ask sends a request on a new connection, which stays open, and returns status and body.
func ask(t *testing.T, address string) (net.Conn, int, string) {
	t.Helper()

	c, err := net.Dial("tcp", address)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	require.NoError(t, c.SetDeadline(time.Now().Add(time.Minute)))
	_, err = io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	require.NoError(t, err)
	status, body := readAnswer(t, c)

	return c, status, body
}

// readAnswer reads the answer to a request.
func readAnswer(t *testing.T, c net.Conn) (status int, body string) {
	t.Helper()

	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	require.NoError(t, err)

	defer resp.Body.Close()

	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)

	return resp.StatusCode, string(text)
}

// A connection over the limit gets an error in JSON and is closed. The others are served, and their slots are freed.
func TestOneConnectionTooMany(t *testing.T) {
	t.Parallel()
	address := bounded(t, 2)
	first, status, _ := ask(t, address)
	require.Equal(t, http.StatusOK, status)
	_, status, _ = ask(t, address)
	require.Equal(t, http.StatusOK, status)

	third, status, body := ask(t, address)
	require.Equal(t, http.StatusServiceUnavailable, status)

	var refusal map[string]string
	require.NoError(t, json.Unmarshal([]byte(body), &refusal))
	require.Equal(t, "Too many connections", refusal["detail"])

	_, err := third.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF)

	_, resp, err := websocket.DefaultDialer.DialContext(t.Context(), "ws://"+address+"/ws", nil)
	require.ErrorIs(t, err, websocket.ErrBadHandshake)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)

	require.NoError(t, first.Close())
	require.Eventually(
		t,
		func() bool { _, status, _ := ask(t, address); return status == http.StatusOK },
		5*time.Minute,
		10*time.Millisecond,
	)
}

// Clients that send no request or an incomplete one do not keep other clients out.
func TestIncompleteRequestsDoNotBlockClients(t *testing.T) {
	t.Parallel()
	address := bounded(t, 2)

	for _, begun := range []string{"", "GET / HTTP/1.1\r\nHost: x\r\nX-Slow: "} {
		for range 3 {
			c, err := net.Dial("tcp", address)
			require.NoError(t, err)

			defer c.Close()

			_, err = io.WriteString(c, begun)
			require.NoError(t, err)
		}

		c, status, _ := ask(t, address)
		require.Equal(t, http.StatusOK, status)
		require.NoError(t, c.Close())
	}
}

// Clients that never finish a request lose their connections, which frees their slots after the ten seconds
// for a header.
func TestSlowHeadersTimeOut(t *testing.T) {
	t.Parallel()
	address := bounded(t, 1)
	slow, err := net.Dial("tcp", address)
	require.NoError(t, err)

	defer slow.Close()

	_, err = io.WriteString(slow, "GET / HTTP/1.1\r\nHost: x\r\nX-Slow: ")
	require.NoError(t, err)
	require.NoError(t, slow.SetDeadline(time.Now().Add(time.Minute)))
	_, err = io.Copy(io.Discard, slow)
	require.NoError(t, err, "the server hangs up")
	require.Eventually(
		t,
		func() bool { _, status, _ := ask(t, address); return status == http.StatusOK },
		5*time.Minute,
		10*time.Millisecond,
	)
}

// Bytes that are not HTTP, or exceed the limits, never reach a handler: the connection is refused and
// closed. Others are served.
func TestRequestsThatAreNotHTTPAreRefused(t *testing.T) {
	t.Parallel()

	address := bounded(t, 10)
	for request, want := range map[string]int{
		"GET / HTTP/1.1\r\nHost: x\r\nno header\r\n\r\n": http.StatusBadRequest,
		"\x16\x03\x01\r\n\r\n":                           http.StatusBadRequest,
		"GET / HTTP/1.1\r\nHost: x\r\nX-Large: " + strings.Repeat("y", 300<<10) + "\r\n\r\n": http.StatusRequestHeaderFieldsTooLarge,
	} {
		c, err := net.Dial("tcp", address)
		require.NoError(t, err)
		require.NoError(t, c.SetDeadline(time.Now().Add(time.Minute)))
		_, err = io.WriteString(c, request)
		require.NoError(t, err)
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		require.NoError(t, err)
		require.Equal(t, want, resp.StatusCode)
		_, err = io.Copy(io.Discard, resp.Body)
		require.NoError(t, err, "the server hangs up")
		require.NoError(t, resp.Body.Close())
		require.NoError(t, c.Close())
		_, status, _ := ask(t, address)
		require.Equal(t, http.StatusOK, status)
	}
}

// A client that closes its connection after the request sees a reply that comes before its body is read.
func TestRefusalsReachClientsThatClose(t *testing.T) {
	t.Parallel()
	c, err := net.Dial("tcp", bounded(t, 1))
	require.NoError(t, err)

	defer c.Close()

	require.NoError(t, c.SetDeadline(time.Now().Add(time.Minute)))
	_, err = io.WriteString(c, "POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 200000\r\n\r\n")
	require.NoError(t, err)

	for range 2000 {
		_, err := io.WriteString(c, strings.Repeat("x", 100))
		require.NoError(t, err)
	}

	_, body := readAnswer(t, c)
	require.Equal(t, "here", body)
}
