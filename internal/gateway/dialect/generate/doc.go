// Package generate translates calls of /v1/completions with a prompt of token ids into SGLang's /generate, and its replies back.
//
// SGLang's /v1/completions accepts a prompt of ids, but most releases do not return the sampled ids; /generate returns them with their
// log probabilities. Only the wire differs: bounds, records and views are those of the completion.
package generate

// Path of the API, below the engine's root.
const Path = "/generate"

// InfoPaths are SGLang's paths that describe the model, the older one first. No other engine answers them with a model_path.
func InfoPaths() []string { return []string{"/get_model_info", "/model_info"} }
