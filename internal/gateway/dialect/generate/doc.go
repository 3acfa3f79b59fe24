// Package generate translates calls of /v1/completions with a prompt of token ids into SGLang's own /generate, and its replies back.
//
// SGLang's /v1/completions takes a prompt of ids, but most releases do not return those that were sampled; /generate returns them with their
// log probabilities. Only the bytes on the wire differ: bounds, records and views are of the completion.
package generate

// Path of the API, below the engine's root.
const Path = "/generate"

// InfoPaths are SGLang's paths that describe the model, the older one first. No other engine answers them with a model_path.
func InfoPaths() []string { return []string{"/get_model_info", "/model_info"} }
