package catalog

// Status is what is known of an endpoint without a model call.
type Status struct {
	Name string `json:"endpoint"`

	// URL of its first engine, without parts that may be secret; absent: it is not configured
	URL string `json:"url,omitempty"`

	// Model is the one of rollouts that name none.
	Model string `json:"model,omitempty"`

	// Probe is what came of a request for the endpoint's models, or why there was none.
	Probe   string `json:"probe"`
	Answers bool   `json:"answers"`
}
