package local_test

import (
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/driver"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/sandbox/sandboxtest"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

// server is a Python program that serves HTTP on port 4096 and prints that it is up.
const server = `
import http.server, sys
class H(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        self.send_response(200); self.send_header("X-Rolloutd-Port-Error", "true")
        body = (sys.argv[1] + str(self.headers.get("X-Rolloutd-Port-Process"))).encode()
        self.send_header("Content-Length", str(len(body))); self.end_headers(); self.wfile.write(body)
    def log_message(self, *a): pass
s = http.server.HTTPServer((sys.argv[2], 4096), H)
print("up", flush=True)
s.serve_forever()`

func serveInside(t *testing.T, p *sandboxtest.Place, name string, argv ...string) {
	t.Helper()
	_, err := p.Start(t.Context(), name, wire.Process{Argv: argv})
	require.NoError(t, err)
	p.Says(name, "up\n")
}

func ask(p *sandboxtest.Place, process string) (string, error) {
	res, err := p.ClientOf(4096, process).Get("http://sandbox/")
	if err != nil {
		return "", err
	}
	defer res.Body.Close()

	body, err := io.ReadAll(res.Body)
	if res.StatusCode != http.StatusOK {
		return res.Status, err
	}

	return string(body), err
}

// A request is sent only while the expected process itself listens on the port.
func TestPortOfAProcess(t *testing.T) {
	t.Parallel()
	p := place(t, driver.Spec{})
	serveInside(t, p, "real", "python3", "-c", server, "real ", "127.0.0.1")
	answer, err := ask(p, "real")
	require.NoError(t, err)
	require.Equal(t, "real None", answer)
	p.StartBash("other", "sleep infinity")
	_, err = ask(p, "other")
	require.Equal(t, fault.AgentFailed, fault.KindOf(err), "%v", err)
	_, err = ask(p, "missing")
	require.Equal(t, fault.NotFound, fault.KindOf(err), "%v", err)

	// The process is killed, and another one takes its port.
	require.NoError(t, p.Kill(t.Context(), "real"))
	_, err = ask(p, "real")
	require.Equal(t, fault.AgentFailed, fault.KindOf(err), "%v", err)
	serveInside(
		t,
		p,
		"fake",
		"bash",
		"-c",
		`exec 3>&1; (setsid python3 -c "$0" "fake " "" >&3 &); sleep infinity`,
		server,
	)

	for _, name := range []string{"real", "fake", "other"} {
		_, err = ask(p, name)
		require.Equal(t, fault.AgentFailed, fault.KindOf(err), "%s: %v", name, err)
	}

	answer, err = ask(p, "")
	require.NoError(t, err, "unless no process is named")
	require.Equal(t, "fake None", answer)
}

// takeover is a server that lets another process listen on its port before it responds.
const takeover = `
import os, socket, time
def listen():
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    s.bind(("127.0.0.1", 4096)); s.listen()
    return s
s = listen()
print("up", flush=True)
c, _ = s.accept()
c.recv(65536)
r, w = os.pipe()
if os.fork() == 0:
    os.setsid(); s.close(); other = listen(); os.write(w, b"x"); time.sleep(3600)
os.read(r, 1)
c.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nyes")
time.sleep(3600)`

// A response is valid only if no other process listens on the port after it.
func TestPortTakenDuringAnExchange(t *testing.T) {
	t.Parallel()
	p := place(t, driver.Spec{})
	serveInside(t, p, "server", "python3", "-c", takeover)
	_, err := ask(p, "server")
	require.Equal(t, fault.AgentFailed, fault.KindOf(err), "%v", err)
}
