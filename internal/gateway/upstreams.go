package gateway

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
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
	ForS  float64 `json:"for_s"`  // seconds until the pause ends by itself
	WaitS float64 `json:"wait_s"` // drain: seconds to wait for the calls under way
}

// maxPause bounds a pause, in seconds.
const maxPause = 24 * 3600

// Upstream tells how an upstream stands: an endpoint by its name, one without by host and port.
func (c *Client) Upstream(ctx context.Context, name string) (UpstreamStatus, error) {
	return c.upstream(ctx, http.MethodGet, name, "", nil)
}

// Pause lets no call to the upstream begin for so long, or until Resume. Calls under way go on.
func (c *Client) Pause(ctx context.Context, name string, hold time.Duration) (UpstreamStatus, error) {
	return c.upstream(ctx, http.MethodPost, name, "/pause", pauseRequest{ForS: hold.Seconds()})
}

// Drain is Pause, and waits for the calls under way; fault.Timeout when they take longer than wait. The pause then stays.
func (c *Client) Drain(ctx context.Context, name string, hold, wait time.Duration) (UpstreamStatus, error) {
	return c.upstream(ctx, http.MethodPost, name, "/drain", pauseRequest{hold.Seconds(), wait.Seconds()})
}

// Resume ends a pause; without one it is a no-op.
func (c *Client) Resume(ctx context.Context, name string) (UpstreamStatus, error) {
	return c.upstream(ctx, http.MethodPost, name, "/resume", nil)
}

func (c *Client) upstream(ctx context.Context, method, name, what string, in any) (UpstreamStatus, error) {
	var s UpstreamStatus
	err := c.do(ctx, method, "/upstreams/"+url.PathEscape(name)+what, in, &s)
	return s, err
}

// admission finds the admission to an upstream, or makes it: an upstream may be paused before its first call.
func (s *Server) admission(name string) *admission {
	s.mu.Lock()
	defer s.mu.Unlock()
	a, ok := s.admissions[name]
	if !ok {
		a = newAdmission(s.options.Bounds(name), s.report)
		s.admissions[name] = a
	}
	return a
}

// getReady has new rollouts wait rather than running ones: an agent that has begun holds a sandbox, and its time runs.
func (s *Server) getReady(w http.ResponseWriter, req *http.Request) error {
	name := req.PathValue("name")
	if why := s.admission(name).status().Busy; why != "" {
		return fault.New(fault.Exhausted, "model endpoint %q has no room for another rollout: %s", name, why)
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (s *Server) getUpstream(w http.ResponseWriter, req *http.Request) error {
	return upstreamStatus(w, s.admission(req.PathValue("name")))
}

func (s *Server) resumeUpstream(w http.ResponseWriter, req *http.Request) error {
	a := s.admission(req.PathValue("name"))
	a.resume()
	return upstreamStatus(w, a)
}

func (s *Server) pauseUpstream(w http.ResponseWriter, req *http.Request) error {
	a, _, err := s.hold(w, req)
	if err != nil {
		return err
	}
	return upstreamStatus(w, a)
}

// drainUpstream pauses, and waits for the calls under way. When they take longer the pause stays.
func (s *Server) drainUpstream(w http.ResponseWriter, req *http.Request) error {
	a, in, err := s.hold(w, req)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(req.Context(), seconds(in.WaitS))
	defer cancel()
	if err := a.drained(ctx); err != nil {
		return err
	}
	return upstreamStatus(w, a)
}

// hold begins the pause that is asked for.
func (s *Server) hold(w http.ResponseWriter, req *http.Request) (*admission, pauseRequest, error) {
	var in pauseRequest
	if err := readAdmin(w, req, &in); err != nil {
		return nil, in, err
	}
	if !(in.ForS > 0 && in.ForS <= maxPause) {
		return nil, in, fault.Field("for_s", "want seconds, more than 0 and at most %d", maxPause)
	}
	if !(in.WaitS >= 0 && in.WaitS <= maxPause) {
		return nil, in, fault.Field("wait_s", "want seconds, at most %d", maxPause)
	}
	a := s.admission(req.PathValue("name"))
	a.pause(seconds(in.ForS))
	return a, in, nil
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

func upstreamStatus(w http.ResponseWriter, a *admission) error {
	body, err := json.Marshal(a.status())
	if err != nil {
		return fault.Wrap(fault.Internal, err, "status")
	}
	writeJSON(w, http.StatusOK, body)
	return nil
}
