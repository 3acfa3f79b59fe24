package rest

import (
	"net/http"
	"time"

	"github.com/rolloutd/rolloutd/envserver/internal/exportmemory"
	"github.com/rolloutd/rolloutd/envserver/internal/httpio"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// maxSend bounds the transfer of an export: other exports wait for its memory.
const maxSend = 10 * time.Minute

// export is one answer that is built completely before it is sent.
type export struct {
	*exportmemory.Export
	conn *http.ResponseController
}

// export waits for room for an answer. If ok is false the request has been answered; else the caller must call leave.
func (a *API) export(w http.ResponseWriter, r *http.Request, most int64) (x export, ok bool) {
	room, err := a.Exports.Acquire(r.Context(), most)
	if err != nil {
		w.Header().Set("Retry-After", "1")
		httpio.WriteRefusal(w, err)

		return export{}, false
	}

	x = export{room, http.NewResponseController(w)}
	// a test's recorder has none
	_ = x.conn.SetWriteDeadline(time.Now().Add(maxSend))

	return x, true
}

// leave releases the room and removes the deadline, since the connection may serve more requests.
func (x export) leave() {
	x.Release()
	_ = x.conn.SetWriteDeadline(time.Time{})
}

func sizeOf(t rollout.Transcript) (n int64) {
	for _, m := range t.Messages {
		n += int64(len(m))
	}

	return n
}
