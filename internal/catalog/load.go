package catalog

import "time"

// Load is what the gateway knows of an endpoint's calls and replies.
type Load struct {
	// version of the weights, as a trainer named it
	Version string `json:"version,omitempty"`

	// calls under way, and those that wait for permission
	InFlight int `json:"in_flight"`
	Queued   int `json:"queued"`

	// end of a pause; absent: there is none
	PausedUntil *time.Time `json:"paused_until,omitempty"`

	// why new rollouts wait; absent: they do not
	Busy string `json:"busy,omitempty"`

	// that no connection to the endpoint can be made, since when, why, and what happens to its rollouts; absent: one can
	Unreachable string `json:"unreachable,omitempty"`

	// since when nothing came from the endpoint, though it has calls; absent: something does
	SilentSince *time.Time `json:"silent_since,omitempty"`

	// replies with a sign of a fault of the engine, by fault, since the gateway began
	Faults map[string]int `json:"faults,omitempty"`

	// Audit is what the latest audit found; absent: there is none since the gateway began.
	Audit *Audit `json:"audit,omitempty"`
}

// Audit is what the endpoint's log probabilities of recorded tokens, asked for again, say of those that were recorded.
type Audit struct {
	// turns that were scored again, and those of them that do not fit the weights that they name
	Turns  int `json:"turns"`
	Marked int `json:"marked"`

	Versions []AuditedVersion `json:"versions"`

	// turns that were not scored again, by reason
	Skipped map[string]int `json:"skipped,omitempty"`
}

// AuditedVersion is what an audit found of the turns of one version.
type AuditedVersion struct {
	// "": the weights have no name
	Version string `json:"version"`
	Turns   int    `json:"turns"`
	Tokens  int    `json:"tokens"`

	// mean absolute difference, and the estimators k1 and k3 of the KL divergence, in nats
	MeanAbs float64 `json:"mean_abs"`
	K1      float64 `json:"k1"`
	K3      float64 `json:"k3"`
}
