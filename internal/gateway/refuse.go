package gateway

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strings"

	"github.com/rolloutd/rolloutd/internal/chat"
)

// refuse answers with an error in the API's shape, in words that have no agent try again: the gateway has tried already.
func (d *dialect) refuse(w http.ResponseWriter, status int, text, code string) {
	writeJSON(w, status, d.refusal(soften(text), code))
}

// broken is the error as the last event of a stream that has begun, and of which the agent has seen so much.
func (d *dialect) broken(text, code string, seen []byte) []byte {
	told := d.refusal(soften(text), code)
	if d.told != nil {
		told = d.told(soften(text), code, seen)
	}
	event := append([]byte("data: "), told...)
	if d.errorEvent != "" {
		event = append([]byte("event: "+d.errorEvent+"\n"), event...)
	}
	return append(event, "\n\n"...)
}

func notFound(w http.ResponseWriter, text string) {
	writeJSON(w, http.StatusNotFound, openAIRefusal(soften(text), ""))
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
	}{Type: "error", Sequence: chat.NextNumber(seen), Message: text, Code: optional(code), Error: errorDetail{text, "invalid_request", code}}) // always encodes
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
	if code == overflowCode {
		text = "prompt is too long: " + text
	}
	body, _ := json.Marshal(struct {
		Type  string      `json:"type"`
		Error errorDetail `json:"error"`
	}{"error", errorDetail{Message: text, Type: "invalid_request_error"}}) // always encodes
	return body
}

// overflowCode is how OpenAI names a prompt that is too long. Agents look for it, and shorten the conversation.
const overflowCode = "context_length_exceeded"

// rejection words an upstream's refusal of the agent's own request. A prompt that is too long stays recognisable.
func rejection(status int, text string) answer {
	a := answer{kind: told, status: http.StatusBadRequest, text: text}
	if status == http.StatusRequestEntityTooLarge {
		a.status = status
	}
	for _, words := range []string{"maximum context length", "prompt is too long", overflowCode} {
		if strings.Contains(strings.ToLower(text), words) {
			a.code = overflowCode
		}
	}
	return a
}

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

func writeJSON(w http.ResponseWriter, status int, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(body) // who hung up needs no answer
}
