package reply

// API is a model API; its value is its path below /v1. The zero value is Chat.
type API string

const (
	Chat        API = "chat/completions"
	Completions API = "completions"     // OpenAI's older API, with a prompt instead of messages
	Responses   API = "responses"       // OpenAI's
	Messages    API = "messages"        // Anthropic's
	Generate    API = "generateContent" // Google's, below /v1beta; always translated
)
