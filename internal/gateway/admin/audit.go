package admin

import (
	"errors"
	"io"
	"net/http"

	"github.com/rolloutd/rolloutd/internal/gateway/gatewayapi"
)

// runAudit scores the latest turns of an upstream again.
func (a *API) runAudit(w http.ResponseWriter, req *http.Request) error {
	var in gatewayapi.AuditRequest
	// an empty body has the defaults
	if err := readRequest(w, req, &in); err != nil && !errors.Is(err, io.EOF) {
		return err
	}

	report, err := a.gateway.Audit(req.Context(), req.PathValue("name"), in)
	if err != nil {
		return err
	}

	return encode(w, report)
}

// getAudit returns what the latest audit of an upstream found.
func (a *API) getAudit(w http.ResponseWriter, req *http.Request) error {
	report, err := a.gateway.LatestAudit(req.PathValue("name"))
	if err != nil {
		return err
	}

	return encode(w, report)
}
