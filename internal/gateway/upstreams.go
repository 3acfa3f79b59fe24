package gateway

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// UpstreamStatus is how an upstream stands.
type UpstreamStatus struct {
	Paused    bool      `json:"paused"`
	Until     time.Time `json:"until,omitzero"`      // when the pause ends by itself
	HeldUntil time.Time `json:"held_until,omitzero"` // it asked to be left alone until then
	InFlight  int       `json:"in_flight"`           // requests under way
	Queued    int       `json:"queued"`              // requests that wait
	Busy      string    `json:"busy,omitempty"`      // why new rollouts wait; absent: they need not
}

// pauseRequest is the body of POST /upstreams/{name}/pause and drain.
type pauseRequest struct {
	ForS  float64 `json:"for_s"`           // seconds until the pause ends by itself
	WaitS float64 `json:"wait_s"`          // drain: seconds to wait for the calls under way
	Abort bool    `json:"abort,omitempty"` // drain: end those that take longer, to be made again after the pause
}

const (
	// maxPause bounds a pause, in seconds.
	maxPause = 24 * 3600
	// clearTime is what requests that were ended may take to be over.
	clearTime = 10 * time.Second
)

func (s *Server) getUpstream(w http.ResponseWriter, req *http.Request) error {
	g, err := s.meant(req, func(*admission) {})
	if err != nil {
		return err
	}
	return upstreamStatus(w, g)
}

func (s *Server) resumeUpstream(w http.ResponseWriter, req *http.Request) error {
	g, err := s.meant(req, (*admission).resume)
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
	err = g.drained(req.Context(), seconds(in.WaitS))
	if err != nil && in.Abort && req.Context().Err() == nil {
		g.clear()
		err = g.drained(req.Context(), clearTime)
	}
	if err != nil {
		return err
	}
	if !g.status().Paused {
		return fault.New(fault.Timeout, "the pause ended before the last call did: calls begin again")
	}
	return upstreamStatus(w, g)
}

// hold begins the pause that is asked for.
func (s *Server) hold(w http.ResponseWriter, req *http.Request) (group, pauseRequest, error) {
	var in pauseRequest
	if err := readRequest(w, req, &in); err != nil {
		return nil, in, err
	}
	if !(in.ForS > 0 && in.ForS <= maxPause) {
		return nil, in, fault.Field("for_s", "want seconds, more than 0 and at most %d", maxPause)
	}
	if !(in.WaitS >= 0 && in.WaitS <= maxPause) {
		return nil, in, fault.Field("wait_s", "want seconds, at most %d", maxPause)
	}
	g, err := s.meant(req, func(a *admission) { a.pause(seconds(in.ForS)) })
	return g, in, err
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

func upstreamStatus(w http.ResponseWriter, g group) error {
	body, err := json.Marshal(g.status())
	if err != nil {
		return fault.Wrap(fault.Internal, err, "status")
	}
	writeJSON(w, http.StatusOK, body)
	return nil
}
