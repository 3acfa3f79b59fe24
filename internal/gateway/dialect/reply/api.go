package reply

// API is one of the formats in which models are called; its text is the path below /v1. The zero value is Chat.
type API string

const (
	Chat        API = "chat/completions"
	Completions API = "completions"     // of OpenAI too, and older: a prompt in place of messages
	Responses   API = "responses"       // OpenAI's
	Messages    API = "messages"        // Anthropic's
	Generate    API = "generateContent" // Google's, below /v1beta; it never goes upstream
)
