package dialect

import (
	"encoding/json"
	"regexp"

	"github.com/rolloutd/rolloutd/internal/gateway/dialect/render"
)

// Broken returns an error as the last event of a stream, given what the agent has seen of it.
func (d *Dialect) Broken(text, code string, seen []byte) []byte {
	body := d.refusal(breakRetryWords(text), code)
	if d.event != nil {
		body = d.event(breakRetryWords(text), code, seen)
	}

	event := append([]byte("data: "), body...)
	if d.errorEvent != "" {
		event = append([]byte("event: "+d.errorEvent+"\n"), event...)
	}

	return append(event, "\n\n"...)
}

type errorDetail struct {
	Message string `json:"message"`
	Type    string `json:"type"`
	Code    string `json:"code,omitempty"`
}

func openAIRefusal(text, code string) []byte {
	// always encodes
	body, _ := json.Marshal(map[string]errorDetail{"error": {Message: text, Type: "invalid_request", Code: code}})
	return body
}

// responsesError is an event in both forms in use: flat as documented, and with the error nested. Readers
// look for one or the other, and ignore an event without a type, so that they would take a partial reply
// for a whole one.
func responsesError(text, code string, seen []byte) []byte {
	// always encodes
	body, _ := json.Marshal(struct {
		Type     string      `json:"type"`
		Sequence int64       `json:"sequence_number"`
		Message  string      `json:"message"`
		Code     *string     `json:"code"`
		Param    *string     `json:"param"`
		Error    errorDetail `json:"error"`
	}{
		Type:     "error",
		Sequence: render.NextNumber(seen),
		Message:  text,
		Code:     optional(code),
		Error:    errorDetail{text, "invalid_request", code},
	})

	return body
}

func optional(s string) *string {
	if s == "" {
		return nil
	}

	return &s
}

// anthropicRefusal has no field for a code: its agents recognize a prompt that is too long by the text
// "prompt is too long".
func anthropicRefusal(text, code string) []byte {
	if code == OverflowCode {
		text = "prompt is too long: " + text
	}
	// always encodes
	body, _ := json.Marshal(struct {
		Type  string      `json:"type"`
		Error errorDetail `json:"error"`
	}{"error", errorDetail{Message: text, Type: "invalid_request_error"}})

	return body
}

// googleRefusal returns an error in the form of Google's APIs; agents recognize it by the status.
func googleRefusal(text, _ string) []byte {
	// always encodes
	body, _ := json.Marshal(map[string]any{"error": map[string]any{
		"code":    400,
		"message": text,
		"status":  "INVALID_ARGUMENT",
	}})

	return body
}

// OverflowCode is OpenAI's code for a prompt that is too long. Agents shorten the conversation when they see it.
const OverflowCode = "context_length_exceeded"

// breakRetryWords inserts an underscore into every text that makes OpenCode retry: three digits of a status
// anywhere ("15000" contains 500) and the usual words for transient errors.
func breakRetryWords(text string) string {
	return retryWords().ReplaceAllStringFunc(text, func(found string) string {
		return found[:1] + "_" + found[1:]
	})
}

func retryWords() *regexp.Regexp {
	return regexp.MustCompile(`(?i)429|50[0234]|524` +
		`|rate increased too quickly|rate[ _-]limit|too many requests` +
		`|overloaded|service[ _-]unavailable|internal[ _]error|internal server error|server[ _-]error|provider[ _-]returned[ _-]error` +
		`|terminated|fetch failed|failed to fetch|network[-_\s]error|upstream connect|connection (?:error|refused|lost)` +
		`|socket connection was closed|socket hang up|reset before headers|getaddrinfo|enotfound|eai_again|econnrefused|econnreset|etimedout` +
		`|timeout|timed[ -]out|time out|try your request again|retry your request|resource[ _]exhausted` +
		`|try again|at capacity`)
}

// ErrorBody returns an error in the API's form, in words that do not make agents retry: the gateway has
// retried already.
func (d *Dialect) ErrorBody(text, code string) []byte { return d.refusal(breakRetryWords(text), code) }

// OpenAIError returns an error for a path outside every API.
func OpenAIError(text string) []byte { return openAIRefusal(breakRetryWords(text), "") }
