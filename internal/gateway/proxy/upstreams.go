package proxy

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/gateway"
	"github.com/rolloutd/rolloutd/internal/gateway/upstream/limits"
)

const (
	// maxPause bounds a pause, in seconds.
	maxPause = 24 * 3600
	// clearTime is what requests that were ended may take to be over.
	clearTime = 10 * time.Second
)

func (s *Server) getUpstream(w http.ResponseWriter, req *http.Request) error {
	g, err := s.upstreams.Named(req.PathValue("name"), func(*limits.Admission) {})
	if err != nil {
		return err
	}
	return upstreamStatus(w, g)
}

func (s *Server) resumeUpstream(w http.ResponseWriter, req *http.Request) error {
	g, err := s.upstreams.Named(req.PathValue("name"), (*limits.Admission).Resume)
	if err != nil {
		return err
	}
	return upstreamStatus(w, g)
}

func (s *Server) pauseUpstream(w http.ResponseWriter, req *http.Request) error {
	g, _, err := s.hold(w, req)
	if err != nil {
		return err
	}
	return upstreamStatus(w, g)
}

// drainUpstream pauses, and waits for the calls under way. When they take longer they are ended, or else the pause stays.
func (s *Server) drainUpstream(w http.ResponseWriter, req *http.Request) error {
	g, in, err := s.hold(w, req)
	if err != nil {
		return err
	}
	err = g.Drained(req.Context(), seconds(in.WaitS))
	if err != nil && in.Abort && req.Context().Err() == nil {
		g.Clear()
		err = g.Drained(req.Context(), clearTime)
	}
	if err != nil {
		return err
	}
	if !g.Status().Paused {
		return fault.New(fault.Timeout, "the pause ended before the last call did: calls begin again")
	}
	return upstreamStatus(w, g)
}

// hold begins the pause that is asked for.
func (s *Server) hold(w http.ResponseWriter, req *http.Request) (limits.Group, gateway.PauseRequest, error) {
	var in gateway.PauseRequest
	if err := readRequest(w, req, &in); err != nil {
		return nil, in, err
	}
	if !(in.ForS > 0 && in.ForS <= maxPause) {
		return nil, in, fault.Field("for_s", "want seconds, more than 0 and at most %d", maxPause)
	}
	if !(in.WaitS >= 0 && in.WaitS <= maxPause) {
		return nil, in, fault.Field("wait_s", "want seconds, at most %d", maxPause)
	}
	g, err := s.upstreams.Named(req.PathValue("name"), func(a *limits.Admission) { a.Pause(seconds(in.ForS)) })
	return g, in, err
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

func upstreamStatus(w http.ResponseWriter, g limits.Group) error {
	body, err := json.Marshal(g.Status())
	if err != nil {
		return fault.Wrap(fault.Internal, err, "status")
	}
	writeJSON(w, http.StatusOK, body)
	return nil
}

// TrainerHandler serves the trainer API: what a trainer needs of a gateway and no more. Its tokens are the deployment's own for
// trainers and those of Options.
//
//	GET    /routes/{id}/trace                   → JSON lines of rollout.Turn
//	GET    /upstreams/{name}                    → UpstreamStatus
//	POST   /upstreams/{name}/pause   {"for_s": …}                             → UpstreamStatus; no call begins
//	POST   /upstreams/{name}/drain   {"for_s": …, "wait_s": …, "abort": …}    → UpstreamStatus, when none is under way
//	POST   /upstreams/{name}/resume                                           → UpstreamStatus
func (s *Server) TrainerHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+gateway.TracePath, answering(s.getTrace))
	mux.HandleFunc("GET "+gateway.UpstreamPath, answering(s.getUpstream))
	mux.HandleFunc("POST "+gateway.UpstreamPath+"/pause", answering(s.pauseUpstream))
	mux.HandleFunc("POST "+gateway.UpstreamPath+"/drain", answering(s.drainUpstream))
	mux.HandleFunc("POST "+gateway.UpstreamPath+"/resume", answering(s.resumeUpstream))
	return authorized(mux, append([]string{gateway.TrainerToken(s.options.Key)}, s.options.TrainerTokens...)...)
}
