package opencode_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/scripted"
)

// recorder is a proxy in front of the scripted model that keeps every byte in both directions.
type recorder struct {
	model http.Handler

	mu  sync.Mutex
	all []*exchange

	// entries of scripted.Sent
	log bytes.Buffer
}

type exchange struct{ request, reply []byte }

func newRecorder(scripts scripted.Scripts) *recorder {
	r := &recorder{}
	r.model = scripted.New(scripted.Options{Scripts: scripts, Log: r})

	return r
}

func (r *recorder) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()

	return r.log.Write(p)
}

func (r *recorder) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}

	req.Body = io.NopCloser(bytes.NewReader(body))
	e := &exchange{request: body}

	r.mu.Lock()
	r.all = append(r.all, e)
	r.mu.Unlock()
	r.model.ServeHTTP(&tee{w, r, e}, req)
}

type tee struct {
	http.ResponseWriter
	r *recorder
	e *exchange
}

func (t *tee) Unwrap() http.ResponseWriter { return t.ResponseWriter }

func (t *tee) Write(p []byte) (int, error) {
	t.r.mu.Lock()
	t.e.reply = append(t.e.reply, p...)
	t.r.mu.Unlock()

	return t.ResponseWriter.Write(p)
}

// exchanges returns a copy of all exchanges so far, in the order of their start.
func (r *recorder) exchanges() []exchange {
	r.mu.Lock()
	defer r.mu.Unlock()

	all := make([]exchange, len(r.all))
	for i, e := range r.all {
		all[i] = exchange{e.request, bytes.Clone(e.reply)}
	}

	return all
}

// sent returns the model's own log of the calls that it answered completely.
func (r *recorder) sent(t *testing.T) []scripted.Sent {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()

	var all []scripted.Sent

	for d := json.NewDecoder(bytes.NewReader(r.log.Bytes())); d.More(); {
		var s scripted.Sent
		require.NoError(t, d.Decode(&s))

		if s.Complete && s.FinishReason != "" {
			all = append(all, s)
		}
	}

	return all
}
