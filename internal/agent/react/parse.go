package react

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"unicode"

	"github.com/rolloutd/rolloutd/internal/input/jsoninput"
)

// Tags of the form "hermes".
const (
	callOpen      = "<tool_call>"
	callClose     = "</tool_call>"
	responseOpen  = "<tool_response>"
	responseClose = "</tool_response>"
)

// maxCalls bounds the tool calls of one message. Further calls are malformed.
const maxCalls = 128

// call is one tool call of a reply.
type call struct {
	// the policy's, or a generated deterministic one
	ID   string
	Name string

	// an object
	Arguments json.RawMessage

	// why it cannot be run; then all other fields but ID are empty
	Malformed string
}

// parseCalls reads the tool calls of a message, in order, including those within <think>. Only the
// environment may write <tool_response>. A message that has one continues with an invented result, so the
// rest of it is one malformed call. With lenient, malformed calls are ignored.
func parseCalls(text string, lenient bool) []call {
	var calls []call

	for {
		// each byte is looked at once, however many blocks there are
		before, after, found := strings.Cut(text, callOpen)
		switch {
		case !lenient && strings.Contains(before, responseOpen):
			return append(calls, call{
				Malformed: "a message must not contain " + responseOpen + ": tool results come in the next message; what follows it was ignored",
			})
		case !found:
			return calls
		case len(calls) == maxCalls:
			return append(calls, call{
				Malformed: fmt.Sprintf("more than %d tool calls in one message; the others were ignored", maxCalls),
			})
		}

		body, rest, closed := callBody(after)
		if c, ok := parseCall(body, closed); ok && !(lenient && c.Malformed != "") {
			calls = append(calls, c)
		}

		text = rest
	}
}

// callBody splits the text after an opening tag at the end of the body. A JSON object may have tags in its
// strings, so it ends where its value ends. Any other body ends at the first closing tag.
func callBody(text string) (body, rest string, closed bool) {
	inner := strings.TrimLeftFunc(text, unicode.IsSpace)
	if strings.HasPrefix(inner, "{") {
		d := json.NewDecoder(jsoninput.NewReader(strings.NewReader(inner), callLimits()))

		var value json.RawMessage
		if d.Decode(&value) == nil {
			after := strings.TrimLeftFunc(inner[d.InputOffset():], unicode.IsSpace)
			if rest, ok := strings.CutPrefix(after, callClose); ok {
				return inner[:d.InputOffset()], rest, true
			}
		}
	}

	return strings.Cut(text, callClose)
}

// glm matches the format of GLM models: a name, then the object of arguments.
var glm = regexp.MustCompile(`^([A-Za-z0-9_.:\\-]+)\s*(\{[\s\S]*\})$`)

// parseCall reads the body of one block. Empty blocks, and an unclosed tag in prose, are not calls.
func parseCall(body string, closed bool) (c call, ok bool) {
	body = strings.TrimSpace(body)

	named := glm.FindStringSubmatch(body)
	switch {
	case !closed && (strings.HasPrefix(body, "{") || named != nil):
		return call{Malformed: "the block has no " + callClose}, true
	case !closed || body == "":
		return call{}, false
	case strings.HasPrefix(body, "{"):
		return parseObject([]byte(body)), true
	case named != nil:
		arguments, err := object([]byte(named[2]))
		if err != nil {
			return call{Malformed: fmt.Sprintf("the arguments of %s are %v", named[1], err)}, true
		}

		return call{Name: named[1], Arguments: arguments}, true
	default:
		return call{Malformed: `the block must be one JSON object such as {"name": "…", "arguments": {…}}`}, true
	}
}

// parseObject reads a call in the Hermes format. The id is a string or a number; uniq_id takes precedence over id.
func parseObject(body []byte) call {
	whole, err := object(body)
	if err != nil {
		return call{Malformed: fmt.Sprintf("the block is %v", err)}
	}
	// keys are case-sensitive; the last of two equal keys counts
	var in map[string]json.RawMessage
	if err := json.Unmarshal(whole, &in); err != nil {
		return call{Malformed: fmt.Sprintf("the block is not a tool call: %v", err)}
	}

	c := call{ID: idText(in["uniq_id"])}
	if c.ID == "" {
		c.ID = idText(in["id"])
	}

	if json.Unmarshal(in["name"], &c.Name) != nil || c.Name == "" {
		return call{ID: c.ID, Malformed: `"name" must be the name of a tool, as a string`}
	}

	arguments, given := in["arguments"]
	if !given {
		arguments = json.RawMessage("{}")
	}

	if c.Arguments, err = object(arguments); err != nil {
		return call{ID: c.ID, Malformed: `"arguments" must be a JSON object: it is ` + err.Error()}
	}

	return c
}

// maxID bounds an id that the policy gives, in bytes.
const maxID = 64

// idText returns an id that is a string or a number other than 0; "" for anything else.
func idText(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) != nil {
		var n json.Number
		if json.Unmarshal(raw, &n) != nil || n == "0" {
			return ""
		}

		s = n.String()
	}

	if len(s) > maxID {
		return ""
	}

	return s
}

// callLimits bound the JSON of one call.
func callLimits() jsoninput.Limits {
	return jsoninput.Limits{Bytes: 8 << 20, Elements: 10_000, Depth: 64}
}

// object checks that text is one JSON object and nothing else.
func object(text []byte) (json.RawMessage, error) {
	d := json.NewDecoder(jsoninput.NewReader(bytes.NewReader(text), callLimits()))

	var value json.RawMessage
	if err := d.Decode(&value); err != nil {
		return nil, fmt.Errorf("not valid JSON: %w", err)
	}

	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("not one JSON object: text follows it")
	}

	if value = bytes.TrimSpace(value); len(value) == 0 || value[0] != '{' {
		return nil, errors.New("not a JSON object")
	}

	return value, nil
}
