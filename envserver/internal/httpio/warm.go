package httpio

import (
	"maps"
	"net/http"
	"sync"
	"time"
)

// warm writes blanks while an answer in JSON is being made, which no reader of JSON minds: a client's or a proxy's bound on silence is
// then none on the call. The first blank sends the status 200, which such an answer has whatever it says.
type warm struct {
	http.ResponseWriter
	every  time.Duration
	header http.Header
	sent   bool // the handler has sent a status

	mu    sync.Mutex
	timer *time.Timer
	early bool // a blank was written, and the header with it
	over  bool // the answer has begun, or the handler has ended
}

// KeepWarm returns a writer for the answer, and a function to be called when the handler ends. Silence lasts at most as long as every.
func KeepWarm(w http.ResponseWriter, every time.Duration) (http.ResponseWriter, func()) {
	k := &warm{ResponseWriter: w, every: every, header: http.Header{}}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.timer = time.AfterFunc(every, k.blank)
	return k, k.stop
}

func (k *warm) blank() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.over {
		return
	}
	if !k.early {
		k.early = true
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

// stop ends the blanks. It waits for one being written.
func (k *warm) stop() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.over = true
	k.timer.Stop()
}

// Header is the answer's own: a blank may be sending the real one.
func (k *warm) Header() http.Header { return k.header }

// WriteHeader sends the status, unless a blank has sent one.
func (k *warm) WriteHeader(status int) {
	k.stop()
	if !k.early && !k.sent {
		maps.Copy(k.ResponseWriter.Header(), k.header)
		k.ResponseWriter.WriteHeader(status)
	}
	k.sent = true
}

func (k *warm) Write(p []byte) (int, error) {
	if !k.sent {
		k.WriteHeader(http.StatusOK)
	}
	return k.ResponseWriter.Write(p)
}

// Unwrap is for http.ResponseController.
func (k *warm) Unwrap() http.ResponseWriter { return k.ResponseWriter }
