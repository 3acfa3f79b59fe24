package catalog

// endpoint is one row of the catalog.
type endpoint struct {
	name    string
	baseURL source
	apiKey  source
	model   source

	// the variable that says whether the model sees images; "": none
	images string

	// supports logprobs and top_logprobs
	logprobs bool

	// supports vLLM's return_token_ids
	tokenIDs bool
	// quiet switches thinking off unless the client asks for it.
	quiet bool
}

// source is the source of a field without an argument; without a fallback the field is required.
type source struct {
	env      string
	fallback string
}

// noKey is the key for an endpoint that needs none: OpenAI clients and servers require some bearer token.
const noKey = "intercepted"

const (
	vllmName     = "vllm"
	openAIName   = "openai"
	hfRouterName = "hf_router"
	scriptedName = "scripted"

	openAIHost = "api.openai.com"
)

func knownEndpoints() []endpoint {
	return []endpoint{
		{
			name:     vllmName,
			baseURL:  source{env: "VLLM_URL"},
			apiKey:   source{env: "VLLM_API_KEY", fallback: noKey},
			images:   "VLLM_IMAGES",
			model:    source{env: "VLLM_MODEL", fallback: "Qwen/Qwen3.5-4B"},
			logprobs: true, tokenIDs: true, quiet: true,
		},
		{
			name:     openAIName,
			baseURL:  source{env: "OPENAI_BASE_URL", fallback: "https://" + openAIHost + "/v1"},
			apiKey:   source{env: "OPENAI_API_KEY"},
			images:   "OPENAI_IMAGES",
			model:    source{env: "OPENAI_MODEL", fallback: "gpt-4o-mini"},
			logprobs: true,
		},
		{
			name:     hfRouterName,
			baseURL:  source{env: "HF_ROUTER_BASE_URL", fallback: "https://router.huggingface.co/v1"},
			apiKey:   source{env: "HF_ROUTER_API_KEY"},
			images:   "HF_ROUTER_IMAGES",
			model:    source{env: "HF_ROUTER_MODEL", fallback: "Qwen/Qwen3-4B-Instruct-2507:nscale"},
			logprobs: true,
		},
		{
			name:     scriptedName,
			baseURL:  source{env: "SCRIPTED_URL", fallback: "http://127.0.0.1:9099/v1"},
			apiKey:   source{fallback: noKey},
			model:    source{fallback: "scripted"},
			logprobs: true, tokenIDs: true,
		},
	}
}

func (c *Catalog) endpoint(name string) (endpoint, bool) {
	for _, e := range c.endpoints {
		if e.name == name {
			return e, true
		}
	}

	return endpoint{}, false
}

// direct returns the entry of an endpoint given only by URL. It takes no key from the environment.
func direct() endpoint {
	return endpoint{apiKey: source{fallback: noKey}, logprobs: true, tokenIDs: true}
}
