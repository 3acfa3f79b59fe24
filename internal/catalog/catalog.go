package catalog

import (
	"strconv"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/network/egress"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// Request has a client's model arguments; a zero field was not given.
type Request struct {
	// Generation 1.
	// "vllm://<repo>" or "hf-router://<repo>:<provider>"
	ModelKey string
	VLLMURL  string
	HFToken  string
	Thinking bool

	// Generation 2.
	Endpoint        string
	BaseURL         string
	APIKey          string
	Model           string
	DisableThinking *bool

	// whether the model sees images; nil: as the endpoint's variable says
	Images *bool

	// Both.
	// ≤ 0: none
	MaxTokensCap int

	// asked of endpoints that give logprobs
	TopLogprobs int
}

// Catalog knows the endpoints by name.
type Catalog struct {
	getenv    func(string) string
	egress    egress.Policy
	endpoints []endpoint
}

// New makes a catalog that reads the environment by getenv at each Resolve, so that a changed value
// counts at once. URLs that clients name must pass the policy; those of the environment are the operator's
// and need not.
func New(getenv func(string) string, policy egress.Policy) *Catalog {
	return &Catalog{getenv: getenv, egress: policy, endpoints: knownEndpoints()}
}

// Names are those of the endpoints.
func Names() []string {
	all := knownEndpoints()

	names := make([]string, len(all))
	for i, e := range all {
		names[i] = e.name
	}

	return names
}

// Unset is the variable that configures an endpoint and is not set; "": none is missing. An endpoint that has a default
// for all that it needs is configured by its URL.
func Unset(name string, getenv func(string) string) string {
	e, _ := New(getenv, egress.Policy{}).endpoint(name)

	needs := e.baseURL.env
	if e.baseURL.fallback != "" && e.apiKey.fallback == "" {
		needs = e.apiKey.env
	}

	if getenv(needs) != "" {
		return ""
	}

	return needs
}

// Resolve returns the model and, separately, the plain API key, which the caller must seal. The error is a
// fault.Invalid that names the argument and the variable for the missing value.
func (c *Catalog) Resolve(r Request) (rollout.Model, string, error) {
	if r.TopLogprobs < 0 {
		return rollout.Model{}, "", fault.Field("top_logprobs", "must not be negative, got %d", r.TopLogprobs)
	}

	ask, err := c.read(r)
	if err != nil {
		return rollout.Model{}, "", err
	}

	m, err := c.model(ask)
	if err != nil {
		return rollout.Model{}, "", err
	}

	key, err := c.key(ask, m.BaseURL)
	if err != nil {
		return rollout.Model{}, "", err
	}

	if !sendable(key) {
		return rollout.Model{}, "", unsendable(ask)
	}

	m.MaxTokensCap, m.TopLogprobs = max(r.MaxTokensCap, 0), r.TopLogprobs

	return m, key, nil
}

func (c *Catalog) model(a mergedRequest) (rollout.Model, error) {
	raw, err := c.field("base_url", a, a.baseURL, a.ep.baseURL)
	if err != nil {
		return rollout.Model{}, err
	}

	url, err := normalizeAll(raw)
	if err != nil {
		return rollout.Model{}, err
	}

	home := onSameServers(url, c.ownURL(a))
	if !home {
		if err := c.mayCall(a.baseURL.name, url); err != nil {
			return rollout.Model{}, err
		}
	}

	name, err := c.field("model", a, a.model, a.ep.model)
	if err != nil {
		return rollout.Model{}, err
	}

	images, err := c.images(a)
	if err != nil {
		return rollout.Model{}, err
	}

	return rollout.Model{
		Endpoint: a.ep.name,
		BaseURL:  url,
		Own:      a.ep.name != "" && !home,
		Name:     name,
		Logprobs: a.ep.logprobs,
		TokenIDs: a.ep.tokenIDs,
		Thinking: a.thinking(name),
		Images:   images,
	}, nil
}

// images returns whether the model sees images; nil: its endpoint's answers show it.
func (c *Catalog) images(a mergedRequest) (*bool, error) {
	if a.images != nil || a.ep.images == "" || c.getenv(a.ep.images) == "" {
		return a.images, nil
	}

	sees, err := strconv.ParseBool(c.getenv(a.ep.images))
	if err != nil {
		return nil, fault.Field("endpoint", "%s in the server's environment must be true or false, got %q",
			a.ep.images, c.getenv(a.ep.images))
	}

	return &sees, nil
}

// field applies the precedence: argument, environment, default.
func (c *Catalog) field(what string, a mergedRequest, arg argument, s source) (string, error) {
	if arg.value != "" {
		return arg.value, nil
	}

	if s.env != "" {
		if v := c.getenv(s.env); v != "" {
			return v, nil
		}
	}

	if s.fallback == "" {
		return "", missing(what, a, arg.name, s.env)
	}

	return s.fallback, nil
}
