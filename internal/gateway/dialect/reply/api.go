package reply

// API is a model API; its value is its path below /v1. The zero value is Chat.
type API string

const (
	Chat API = "chat/completions"

	// OpenAI's older API, with a prompt instead of messages
	Completions API = "completions"

	// OpenAI's
	Responses API = "responses"

	// Anthropic's
	Messages API = "messages"

	// Google's, below /v1beta; always translated
	Generate API = "generateContent"
)
