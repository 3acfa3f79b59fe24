package external

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/rolloutd/rolloutd/internal/input/jsoninput"
	"github.com/rolloutd/rolloutd/internal/tool"
)

const (
	// bytes of one answer
	maxAnswer = 8 << 20

	// bytes kept of each end of a text
	keepBytes = 25_000

	// bytes of an error message
	maxMessage = 4_000

	// bytes; larger metadata are dropped
	maxMetadata = 64 << 10
)

// answerLimits bound the JSON of one answer.
func answerLimits() jsoninput.Limits {
	return jsoninput.Limits{Bytes: maxAnswer, Elements: 100_000, Depth: 64}
}

// tooLarge returns the result of a call whose answer exceeds a bound.
func tooLarge(err *jsoninput.Error) tool.Result {
	return tool.Failed("the tool's answer is too large: " + err.Error())
}

// bounded keeps both ends of a text and makes it valid UTF-8.
func bounded(text string, keep int) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) <= 2*keep {
		return text
	}

	head, tail := strings.ToValidUTF8(text[:keep], ""), strings.ToValidUTF8(text[len(text)-keep:], "")

	return fmt.Sprintf("%s\n[... %d bytes left out ...]\n%s", head, len(text)-len(head)-len(tail), tail)
}

// result returns the Result of an answer. The message of a failed call is never empty.
func result(success bool, output, message string, metadata json.RawMessage) tool.Result {
	r := tool.Result{Content: bounded(output, keepBytes), Error: !success}
	if r.Error {
		if r.Message = bounded(message, maxMessage/2); strings.TrimSpace(r.Message) == "" {
			r.Message = "the tool failed without a reason"
		}
	}

	if m := strings.TrimSpace(string(metadata)); strings.HasPrefix(m, "{") && len(m) <= maxMetadata && m != "{}" {
		r.Data = json.RawMessage(strings.ToValidUTF8(m, "\uFFFD"))
	}

	return r
}
