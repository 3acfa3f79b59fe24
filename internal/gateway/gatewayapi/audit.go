package gatewayapi

import (
	"context"
	"net/http"
	"net/url"
)

// AuditRequest is the body of POST /upstreams/{name}/audit, which may be empty. Zero values are the defaults.
type AuditRequest struct {
	// how many of the latest turns to score again; 0: 32
	Turns int `json:"turns,omitempty"`

	// mean absolute difference above which a turn is marked, in nats; 0: 0.1
	Limit float64 `json:"limit,omitempty"`

	// the most tokens that one request scores; 0: 4096
	Tokens int `json:"tokens,omitempty"`

	// marked turns are not trained on
	Drop bool `json:"drop,omitempty"`
}

// AuditReport is what an audit found. Differences are recorded log probabilities less those that the endpoint gave the
// same tokens again, in nats.
type AuditReport struct {
	// number of turns that were scored again
	Turns int `json:"turns"`

	// versions of the weights, with what was found of each
	Versions []AuditVersion `json:"versions"`

	// turns that were not scored again, by reason
	Skipped map[string]int `json:"skipped,omitempty"`

	// turns that do not fit the weights that they name
	Marked []AuditedTurn `json:"marked,omitempty"`
}

// AuditVersion is what an audit found of the turns of one version.
type AuditVersion struct {
	// "": the weights have no name
	Version string `json:"version"`
	Turns   int    `json:"turns"`
	Tokens  int    `json:"tokens"`

	// mean absolute difference, and the estimators k1 and k3 of the KL divergence
	MeanAbs float64 `json:"mean_abs"`
	K1      float64 `json:"k1"`
	K3      float64 `json:"k3"`
}

// AuditedTurn is a marked turn.
type AuditedTurn struct {
	Route   string  `json:"route"`
	Turn    int     `json:"turn"`
	Version string  `json:"version"`
	MeanAbs float64 `json:"mean_abs"`
}

// Audit scores the latest turns of an upstream again, and returns what it found.
func (t *Trainer) Audit(ctx context.Context, name string, in AuditRequest) (AuditReport, error) {
	var out AuditReport

	err := t.do(ctx, http.MethodPost, "/upstreams/"+url.PathEscape(name)+"/audit", in, &out)

	return out, err
}

// LatestAudit returns what the latest audit of an upstream found; fault.NotFound: there is none since the gateway began.
func (t *Trainer) LatestAudit(ctx context.Context, name string) (AuditReport, error) {
	var out AuditReport

	err := t.do(ctx, http.MethodGet, "/upstreams/"+url.PathEscape(name)+"/audit", nil, &out)

	return out, err
}
