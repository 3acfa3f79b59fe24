package httpio

import (
	"maps"
	"net/http"
	"sync"
	"time"
)

// keepAliveWriter writes spaces while a JSON answer is computed, so that an idle timeout of a client or a
// proxy does not end the call. JSON parsers skip them. The first space sends the status 200; such answers
// have no other status.
type keepAliveWriter struct {
	http.ResponseWriter
	every  time.Duration
	header http.Header

	// the handler has sent a status
	sent bool

	mu    sync.Mutex
	timer *time.Timer

	// with the first space
	headerSent bool

	// the answer has begun, or the handler has ended
	done bool
}

// KeepAlive returns a writer for the answer, and a function to call when the handler ends. It writes a
// space at every interval without output.
func KeepAlive(w http.ResponseWriter, every time.Duration) (http.ResponseWriter, func()) {
	k := &keepAliveWriter{ResponseWriter: w, every: every, header: http.Header{}}
	k.mu.Lock()
	defer k.mu.Unlock()

	k.timer = time.AfterFunc(every, k.blank)

	return k, k.stop
}

func (k *keepAliveWriter) blank() {
	k.mu.Lock()
	defer k.mu.Unlock()

	if k.done {
		return
	}

	if !k.headerSent {
		k.headerSent = true
		k.ResponseWriter.Header().Set("Content-Type", "application/json")
		k.ResponseWriter.WriteHeader(http.StatusOK)
	}

	_, err := k.ResponseWriter.Write([]byte(" "))
	if err == nil {
		err = http.NewResponseController(k.ResponseWriter).Flush()
	}

	if err == nil {
		k.timer.Reset(k.every)
	}
}

// stop ends the spaces. It waits for a write in progress.
func (k *keepAliveWriter) stop() {
	k.mu.Lock()
	defer k.mu.Unlock()

	k.done = true
	k.timer.Stop()
}

// Header returns the header of the answer, a separate map: the timer may be sending that of the ResponseWriter.
func (k *keepAliveWriter) Header() http.Header { return k.header }

// WriteHeader sends the status, unless a space was sent before.
func (k *keepAliveWriter) WriteHeader(status int) {
	k.stop()

	if !k.headerSent && !k.sent {
		maps.Copy(k.ResponseWriter.Header(), k.header)
		k.ResponseWriter.WriteHeader(status)
	}

	k.sent = true
}

func (k *keepAliveWriter) Write(p []byte) (int, error) {
	if !k.sent {
		k.WriteHeader(http.StatusOK)
	}

	return k.ResponseWriter.Write(p)
}

// Unwrap is for http.ResponseController.
func (k *keepAliveWriter) Unwrap() http.ResponseWriter { return k.ResponseWriter }
