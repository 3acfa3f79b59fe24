package sandboxd

import (
	"cmp"
	"net/http"
	"strconv"
	"time"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/sandboxd/process"
	"github.com/rolloutd/rolloutd/internal/sandboxd/reply"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

// defaultLog bounds the log of one answer if the request sets no limit, in bytes.
const defaultLog = 64 << 10

func (s *Server) putProcess(w http.ResponseWriter, r *http.Request) {
	var spec wire.Process
	if err := readJSON(w, r, &spec); err != nil {
		reply.Error(w, err)
		return
	}

	p, err := s.processes.Start(r.PathValue("name"), spec)
	if err != nil {
		reply.Error(w, err)
		return
	}

	reply.JSON(w, p.Status())
}

func (s *Server) getProcess(w http.ResponseWriter, r *http.Request) {
	p, err := s.processes.Get(r.PathValue("name"))
	if err != nil {
		reply.Error(w, err)
		return
	}

	wait, err := waitOf(r)
	if err != nil {
		reply.Error(w, err)
		return
	}

	if wait > 0 {
		await(r, p, wait)
	}

	reply.JSON(w, p.Status())
}

// waitOf returns for how long the answer may be delayed.
func waitOf(r *http.Request) (time.Duration, error) {
	q := r.FormValue("wait")
	if q == "" {
		return 0, nil
	}

	wait, err := time.ParseDuration(q)
	if err != nil || wait < 0 {
		return 0, fault.Field("wait", "%q is not a duration such as 5s", q)
	}

	return wait, nil
}

// await returns when p has ended, the time is over, or the client has disconnected.
func await(r *http.Request, p *process.Process, atMost time.Duration) {
	timer := time.NewTimer(atMost)
	defer timer.Stop()

	select {
	case <-p.Done():
	case <-timer.C:
	case <-r.Context().Done():
	}
}

func (s *Server) postKill(w http.ResponseWriter, r *http.Request) {
	p, err := s.processes.Get(r.PathValue("name"))
	if err == nil {
		err = s.processes.Kill(p)
	}

	if err != nil {
		reply.Error(w, err)
		return
	}

	reply.JSON(w, p.Status())
}

// killBefore sends SIGKILL to every process before the request takes its turn: the request whose turn it is
// may wait for a process that others have stopped.
func (s *Server) killBefore(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s.processes.SignalAll()
		h(w, r)
	}
}

func (s *Server) postKillAll(w http.ResponseWriter, _ *http.Request) {
	reply.Result(w, s.processes.KillAll())
}

func (s *Server) postFreeze(w http.ResponseWriter, _ *http.Request) {
	reply.Result(w, s.processes.Freeze())
}

func (s *Server) postThaw(w http.ResponseWriter, _ *http.Request) {
	reply.Result(w, s.processes.Thaw())
}

func (s *Server) getLog(w http.ResponseWriter, r *http.Request) {
	p, err := s.processes.Get(r.PathValue("name"))
	if err != nil {
		reply.Error(w, err)
		return
	}

	stream := p.Stream(r.FormValue("stream"))
	offset, limit, err := logRange(r)

	wait, waitErr := waitOf(r)
	if stream == nil {
		err = fault.Field("stream", "%q is neither stdout nor stderr", r.FormValue("stream"))
	}

	if err = cmp.Or(err, waitErr); err != nil {
		reply.Error(w, err)
		return
	}

	if wait > 0 {
		awaitOutput(r, p, stream, offset, wait)
	}
	// read before the stream, so that the read of a final stream is its end
	final := !p.Running()
	data, next := stream.Read(offset, limit)

	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set(wire.LogNextHeader, strconv.FormatInt(next, 10))
	w.Header().Set(wire.LogEOFHeader, strconv.FormatBool(final && next == stream.Length()))
	_, _ = w.Write(data)
}

// awaitOutput returns when the stream is longer than offset, p has ended, the time is over, or the client
// has disconnected.
func awaitOutput(r *http.Request, p *process.Process, stream *process.Output, offset int64, atMost time.Duration) {
	timer := time.NewTimer(atMost)
	defer timer.Stop()

	for {
		// before the length, so that no write is missed
		grown := stream.Grown()
		if stream.Length() > offset {
			return
		}

		select {
		case <-grown:
		case <-p.Done():
			return
		case <-timer.C:
			return
		case <-r.Context().Done():
			return
		}
	}
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
