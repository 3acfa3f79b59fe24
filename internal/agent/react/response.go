package react

import (
	"strings"

	"github.com/rolloutd/rolloutd/internal/tool"
)

// response is a tool's result in the format of the policy's prompt.
func response(id string, r tool.Result) string {
	return responseOpen + responseJSON(id, r) + responseClose
}

// responseJSON is a result as one line of ASCII JSON in Python's format. Tags are escaped, so that output
// cannot end the block or look like a call. No other "<" is escaped.
func responseJSON(id string, r tool.Result) string {
	success := "true"
	if r.Error {
		success = "false"
	}

	var out strings.Builder
	out.WriteString(`{"success": ` + success + `, "output": ` + quoted(r.Content, true))

	if id != "" {
		out.WriteString(`, "uniq_id": ` + quoted(id, true))
	}

	if r.Message != "" {
		out.WriteString(`, "error": ` + quoted(r.Message, true))
	}

	if data := string(spaced(r.Data, true)); data != "" && data != "{}" && data != "null" {
		out.WriteString(`, "metadata": ` + data)
	}

	out.WriteByte('}')

	return tagEscapes().Replace(out.String())
}

// tagEscapes replaces the "<" of our tags by its JSON escape.
func tagEscapes() *strings.Replacer {
	var pairs []string
	for _, tag := range []string{callOpen, callClose, responseOpen, responseClose} {
		pairs = append(pairs, tag, `\u003c`+tag[1:])
	}

	return strings.NewReplacer(pairs...)
}

// malformed is the result of a call that cannot be parsed.
func malformed(c call) tool.Result {
	return tool.Failed("malformed tool call: " + c.Malformed)
}
