package sandboxtest

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/fault"
)

func portTests() map[string]func(*testing.T, Harness) {
	return map[string]func(*testing.T, Harness){
		"Forward":   portForward,
		"Streams":   portStreams,
		"NoServer":  portNoServer,
		"BadPort":   portBad,
		"AppErrors": portAppErrors,
	}
}

// The only server that every sandbox has is the model's address; what is forwarded to it comes back to the
// gateway here.
const modelPort = 7000

func portForward(t *testing.T, h Harness) {
	p := h.place(t)
	seen := make(chan *http.Request, 1)
	g := p.serve(func(w http.ResponseWriter, r *http.Request) {
		seen <- r

		w.Header().Set("X-App", "1")
		w.WriteHeader(http.StatusCreated)
		_, _ = io.Copy(w, r.Body)
	})
	req, err := http.NewRequestWithContext(
		t.Context(),
		http.MethodPatch,
		"http://sandbox/a//b%2Fc/?q=1&q=2%20",
		strings.NewReader("body"),
	)
	require.NoError(t, err)
	req.Header.Set("X-Mine", "yes")
	res, err := p.Client(modelPort).Do(req)
	require.NoError(t, err)

	defer res.Body.Close()

	body, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusCreated, res.StatusCode)
	require.Equal(t, "body", string(body))
	require.Equal(t, "1", res.Header.Get("X-App"))

	r := <-seen
	require.Equal(t, http.MethodPatch, r.Method)
	require.Equal(t, "/a//b%2Fc/?q=1&q=2%20", r.URL.RequestURI())
	require.Equal(t, "yes", r.Header.Get("X-Mine"))
	g.stop()
}

func portStreams(t *testing.T, h Harness) {
	p := h.place(t)
	next := make(chan struct{})
	g := p.serve(func(w http.ResponseWriter, r *http.Request) {
		for range 3 {
			_, _ = io.WriteString(w, "event\n")
			_ = http.NewResponseController(w).Flush()

			<-next
		}
		// the client's going away comes all the way through
		<-r.Context().Done()
		close(next)
	})
	res, err := p.Client(modelPort).Get("http://sandbox/event")
	require.NoError(t, err)

	for range 3 {
		piece := make([]byte, 6)
		_, err := io.ReadFull(res.Body, piece)
		require.NoError(t, err)
		require.Equal(t, "event\n", string(piece))

		next <- struct{}{}
	}

	require.NoError(t, res.Body.Close())
	<-next
	g.stop()
}

func portNoServer(t *testing.T, h Harness) {
	p := h.place(t)
	_, err := p.Client(4444).Get("http://sandbox/")
	require.Equal(t, fault.Unavailable, fault.KindOf(err), "%v", err)
	require.NoError(t, p.Backend.Destroy(t.Context(), p.ID()))
	_, err = p.Client(4444).Get("http://sandbox/")
	require.Equal(t, fault.SandboxLost, fault.KindOf(err), "%v", err)
}

func portBad(t *testing.T, h Harness) {
	p := h.place(t)
	for _, port := range []int{0, -1, 65536} {
		_, err := p.Client(port).Get("http://sandbox/")
		require.Equal(t, fault.Invalid, fault.KindOf(err), "%d: %v", port, err)
	}
}

// An error of the server inside is its own answer, not ours.
func portAppErrors(t *testing.T, h Harness) {
	p := h.place(t)
	g := p.serve(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "broken inside", http.StatusBadGateway) })
	res, err := p.Client(modelPort).Get("http://sandbox/")
	require.NoError(t, err)

	defer res.Body.Close()

	require.Equal(t, http.StatusBadGateway, res.StatusCode)
	g.stop()
}
