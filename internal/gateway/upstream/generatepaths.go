package upstream

// generatePath of the API, below the engine's root.
const generatePath = "/generate"

// generateInfoPaths are SGLang's paths that describe the model, the older one first. No other engine
// answers them with a model_path.
func generateInfoPaths() []string { return []string{"/get_model_info", "/model_info"} }
