package admin

import (
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/gateway/gatewayapi"
	"github.com/rolloutd/rolloutd/internal/gateway/upstream/limits"
)

const (
	// maxPause bounds a pause, in seconds.
	maxPause = 24 * 3600
	// clearTime bounds the wait for the end of canceled requests.
	clearTime = 10 * time.Second
)

// getUpstream returns the status of an upstream with its latest audit.
func (a *API) getUpstream(w http.ResponseWriter, req *http.Request) error {
	name := req.PathValue("name")

	g, err := a.gateway.Upstreams().ForNamed(name, func(*limits.Admission) {})
	if err != nil {
		return err
	}

	status := g.Status()
	if report, err := a.gateway.LatestAudit(name); err == nil {
		status.Audit = &report
	}

	return encode(w, status)
}

// resumeUpstream ends a pause. The request may name the weights of later calls.
func (a *API) resumeUpstream(w http.ResponseWriter, req *http.Request) error {
	var in gatewayapi.ResumeRequest
	// an empty body names none
	if err := readRequest(w, req, &in); err != nil && !errors.Is(err, io.EOF) {
		return err
	}

	if in.Version != "" {
		if err := a.gateway.Upstreams().Load(req.PathValue("name"), in.Version); err != nil {
			return err
		}
	}

	g, err := a.gateway.Resume(req.PathValue("name"))
	if err != nil {
		return err
	}

	return upstreamStatus(w, g)
}

func (a *API) pauseUpstream(w http.ResponseWriter, req *http.Request) error {
	g, _, err := a.beginPause(w, req)
	if err != nil {
		return err
	}

	return upstreamStatus(w, g)
}

// drainUpstream pauses the upstream and waits for the calls in flight. Calls that take longer are canceled
// on request; otherwise the pause stays.
func (a *API) drainUpstream(w http.ResponseWriter, req *http.Request) error {
	g, in, err := a.beginPause(w, req)
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
		return fault.New(fault.Timeout, "the pause ended before the last call: calls begin again")
	}

	return upstreamStatus(w, g)
}

// beginPause begins the requested pause.
func (a *API) beginPause(w http.ResponseWriter, req *http.Request) (limits.Group, gatewayapi.PauseRequest, error) {
	var in gatewayapi.PauseRequest
	if err := readRequest(w, req, &in); err != nil {
		return nil, in, err
	}

	if !(in.ForS > 0 && in.ForS <= maxPause) {
		return nil, in, fault.Field("for_s", "must be seconds, more than 0 and at most %d, got %g", maxPause, in.ForS)
	}

	if !(in.WaitS >= 0 && in.WaitS <= maxPause) {
		return nil, in, fault.Field("wait_s", "must be seconds from 0 to %d, got %g", maxPause, in.WaitS)
	}

	g, err := a.gateway.Pause(req.PathValue("name"), seconds(in.ForS))

	return g, in, err
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

func upstreamStatus(w http.ResponseWriter, g limits.Group) error { return encode(w, g.Status()) }

// TrainerHandler serves the trainer API: what a trainer needs of a gateway and no more. It admits the
// deployment's own token for trainers and those of Options.
//
//	GET    /routes/{id}/trace                   → JSON lines of rollout.Turn
//	GET    /upstreams/{name}                    → UpstreamStatus
//	POST   /upstreams/{name}/pause   {"for_s": …}                             → UpstreamStatus; no call begins
//	POST   /upstreams/{name}/drain   {"for_s": …, "wait_s": …, "abort": …}    → UpstreamStatus, when none is under way
//	POST   /upstreams/{name}/resume  {"version": …}                           → UpstreamStatus; the body may be empty
//	POST   /upstreams/{name}/audit   AuditRequest                             → AuditReport; the body may be empty
//	GET    /upstreams/{name}/audit                                            → AuditReport of the latest audit
func (a *API) TrainerHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+gatewayapi.TracePath, answering(a.getTrace))
	mux.HandleFunc("GET "+gatewayapi.UpstreamPath, answering(a.getUpstream))
	mux.HandleFunc("POST "+gatewayapi.UpstreamPath+"/pause", answering(a.pauseUpstream))
	mux.HandleFunc("POST "+gatewayapi.UpstreamPath+"/drain", answering(a.drainUpstream))
	mux.HandleFunc("POST "+gatewayapi.UpstreamPath+"/resume", answering(a.resumeUpstream))
	mux.HandleFunc("POST "+gatewayapi.UpstreamPath+"/audit", answering(a.runAudit))
	mux.HandleFunc("GET "+gatewayapi.UpstreamPath+"/audit", answering(a.getAudit))

	return authorized(mux, append([]string{gatewayapi.TrainerToken(a.options.Key)}, a.options.TrainerTokens...)...)
}
