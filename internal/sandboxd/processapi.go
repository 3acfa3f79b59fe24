package sandboxd

import (
	"net/http"
	"strconv"
	"time"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

// defaultLog is how much log one request returns when it does not say.
const defaultLog = 64 << 10

func (s *Server) putProcess(w http.ResponseWriter, r *http.Request) {
	var spec wire.Process
	if err := readJSON(w, r, &spec); err != nil {
		writeError(w, err)
		return
	}
	p, err := s.processes.start(r.PathValue("name"), spec)
	if err != nil {
		writeError(w, err)
		return
	}
	writeJSON(w, p.status())
}

func (s *Server) getProcess(w http.ResponseWriter, r *http.Request) {
	p, err := s.processes.get(r.PathValue("name"))
	if err != nil {
		writeError(w, err)
		return
	}
	if q := r.FormValue("wait"); q != "" {
		wait, err := time.ParseDuration(q)
		if err != nil || wait < 0 {
			writeError(w, fault.Field("wait", "%q is not a duration such as 5s", q))
			return
		}
		await(r, p, wait)
	}
	writeJSON(w, p.status())
}

// await returns when p has ended, the time is over, or the client has gone.
func await(r *http.Request, p *process, atMost time.Duration) {
	timer := time.NewTimer(atMost)
	defer timer.Stop()
	select {
	case <-p.done:
	case <-timer.C:
	case <-r.Context().Done():
	}
}

func (s *Server) postKill(w http.ResponseWriter, r *http.Request) {
	p, err := s.processes.get(r.PathValue("name"))
	if err == nil {
		err = s.processes.kill(p)
	}
	if err != nil {
		writeError(w, err)
		return
	}
	await(r, p, killTime)
	writeJSON(w, p.status())
}

// killBefore sends SIGKILL to every process before the request waits for its turn: the one whose turn it is may wait for a
// process that others have stopped.
func (s *Server) killBefore(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		signalAll()
		h(w, r)
	}
}

func (s *Server) postKillAll(w http.ResponseWriter, _ *http.Request) {
	writeResult(w, s.processes.killAll())
}

func (s *Server) getLog(w http.ResponseWriter, r *http.Request) {
	p, err := s.processes.get(r.PathValue("name"))
	if err != nil {
		writeError(w, err)
		return
	}
	stream := p.stream(r.FormValue("stream"))
	offset, limit, err := logRange(r)
	if stream == nil {
		err = fault.Field("stream", "%q is neither stdout nor stderr", r.FormValue("stream"))
	}
	if err != nil {
		writeError(w, err)
		return
	}
	final := !p.running() // asked before reading: what is read of a final stream is its end
	data, next := stream.read(offset, limit)
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set(wire.LogNextHeader, strconv.FormatInt(next, 10))
	w.Header().Set(wire.LogEOFHeader, strconv.FormatBool(final && next == stream.length()))
	_, _ = w.Write(data)
}

func logRange(r *http.Request) (offset int64, limit int, err error) {
	limit = defaultLog
	if q := r.FormValue("offset"); q != "" {
		if offset, err = strconv.ParseInt(q, 10, 64); err != nil || offset < 0 {
			return 0, 0, fault.Field("offset", "%q is not a number of bytes", q)
		}
	}
	if q := r.FormValue("limit"); q != "" {
		if limit, err = strconv.Atoi(q); err != nil || limit < 0 {
			return 0, 0, fault.Field("limit", "%q is not a number of bytes", q)
		}
	}
	return offset, limit, nil
}
