package catalog

import (
	"strings"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// mergedRequest is a Request with the arguments of both generations merged.
type mergedRequest struct {
	ep      endpoint
	baseURL argument
	apiKey  argument
	model   argument
	think   bool
	disable *bool
	images  *bool
}

// argument is a value and the client's name of it.
type argument struct{ name, value string }

func (c *Catalog) read(r Request) (mergedRequest, error) {
	switch {
	case r.ModelKey != "":
		return c.readKey(r)
	case r.Endpoint == "" && r.BaseURL == "":
		return mergedRequest{}, fault.Field("endpoint", "must be one of %s, unless base_url or model_key is set", names())
	}

	a := mergedRequest{
		baseURL: argument{"base_url", r.BaseURL},
		apiKey:  argument{"api_key", r.APIKey},
		model:   argument{"model", r.Model},
		think:   r.Thinking,
		disable: r.DisableThinking,
		images:  r.Images,
	}

	var ok bool

	switch {
	case r.Endpoint != "":
		a.ep, ok = c.endpoint(r.Endpoint)
	case hostOf(r.BaseURL) == openAIHost:
		a.ep, ok = c.endpoint(openAIName)
	default:
		a.ep, ok = direct(), true
	}

	if !ok {
		return mergedRequest{}, fault.Field("endpoint", "must be one of %s; got %q", names(), r.Endpoint)
	}

	return a, nil
}

// readKey reads a model_key. Explicit values of generation 2 override its parts, as they override the catalog.
func (c *Catalog) readKey(r Request) (mergedRequest, error) {
	scheme, name, ok := strings.Cut(r.ModelKey, "://")
	a := mergedRequest{think: r.Thinking, disable: r.DisableThinking, images: r.Images}

	switch {
	case ok && scheme == "vllm" && name != "":
		a.ep, _ = c.endpoint(vllmName)
		a.baseURL = argument{"vllm_url", first(r.BaseURL, r.VLLMURL)}
		a.apiKey = argument{"api_key", r.APIKey}
	case ok && scheme == "hf-router" && validRoute(name):
		a.ep, _ = c.endpoint(hfRouterName)
		a.baseURL = argument{"base_url", r.BaseURL}
		a.apiKey = argument{"hf_token", first(r.APIKey, r.HFToken)}
	default:
		return mergedRequest{}, fault.Field("model_key",
			"must be vllm://<repo> or hf-router://<repo>:<provider>, got %q",
			r.ModelKey)
	}

	if r.Endpoint != "" && r.Endpoint != a.ep.name {
		return mergedRequest{}, fault.Field("model_key",
			"%q is on endpoint %s, but endpoint says %q: give one of the two",
			r.ModelKey, a.ep.name, r.Endpoint)
	}

	a.model = argument{"model", first(r.Model, name)}

	return a, nil
}

func validRoute(name string) bool {
	repo, provider, ok := strings.Cut(name, ":")
	return ok && repo != "" && provider != ""
}

func first(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}

	return ""
}

func names() string { return strings.Join(Names(), ", ") }

// missing returns the ways to set the field: the argument, and the variable if there is one.
func missing(what string, a mergedRequest, arg, env string) error {
	where := "the endpoint"
	if a.ep.name != "" {
		where = "endpoint " + a.ep.name
	}

	if env == "" {
		return fault.Field(arg, "%s has no %s: give the argument %s", where, what, arg)
	}

	return fault.Field(arg, "%s has no %s: give the argument %s, or set %s in the server's environment",
		where, what, arg, env)
}
