package dialect

import (
	"encoding/json"
	"regexp"

	"github.com/rolloutd/rolloutd/internal/gateway/dialect/render"
)

// Broken is the error as the last event of a stream that has begun, after what the agent has seen so far.
func (d *Dialect) Broken(text, code string, seen []byte) []byte {
	body := d.refusal(soften(text), code)
	if d.event != nil {
		body = d.event(soften(text), code, seen)
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
	body, _ := json.Marshal(map[string]errorDetail{"error": {Message: text, Type: "invalid_request", Code: code}}) // always encodes
	return body
}

// responsesError is an event in both of the forms in use, flat as documented and with the error within: readers look for one
// or the other, and pass over an event that has no type, so that half a reply looks whole to them.
func responsesError(text, code string, seen []byte) []byte {
	body, _ := json.Marshal(struct {
		Type     string      `json:"type"`
		Sequence int64       `json:"sequence_number"`
		Message  string      `json:"message"`
		Code     *string     `json:"code"`
		Param    *string     `json:"param"`
		Error    errorDetail `json:"error"`
	}{Type: "error", Sequence: render.NextNumber(seen), Message: text, Code: optional(code), Error: errorDetail{text, "invalid_request", code}}) // always encodes
	return body
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// anthropicRefusal has no place for a code: its agents know a prompt that is too long by the words "prompt is too long".
func anthropicRefusal(text, code string) []byte {
	if code == OverflowCode {
		text = "prompt is too long: " + text
	}
	body, _ := json.Marshal(struct {
		Type  string      `json:"type"`
		Error errorDetail `json:"error"`
	}{"error", errorDetail{Message: text, Type: "invalid_request_error"}}) // always encodes
	return body
}

// googleRefusal is an error as Google's APIs have it; its agents know one by the status.
func googleRefusal(text, _ string) []byte {
	body, _ := json.Marshal(map[string]any{"error": map[string]any{"code": 400, "message": text, "status": "INVALID_ARGUMENT"}}) // always encodes
	return body
}

// OverflowCode is how OpenAI names a prompt that is too long. Agents look for it, and shorten the conversation.
const OverflowCode = "context_length_exceeded"

// soften breaks up, with an underscore, all that OpenCode's rules for trying again look for: three of the digits of a
// status anywhere ("15000" has 500 in it) and the usual words of passing trouble.
func soften(text string) string {
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

// ErrorBody is an error in the API's shape, in words that have no agent try again: the gateway has tried already.
func (d *Dialect) ErrorBody(text, code string) []byte { return d.refusal(soften(text), code) }

// OpenAIError is an error for a path that belongs to no API.
func OpenAIError(text string) []byte { return openAIRefusal(soften(text), "") }
