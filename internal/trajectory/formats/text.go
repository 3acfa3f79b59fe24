package formats

import "encoding/json"

// ContentText returns the text of a message's content, which is a string or a list of parts.
func ContentText(content json.RawMessage) string {
	var text string
	if json.Unmarshal(content, &text) == nil {
		return text
	}

	var parts []struct{ Text string }
	if json.Unmarshal(content, &parts) != nil {
		return ""
	}

	for i, p := range parts {
		if i > 0 {
			text += "\n"
		}

		text += p.Text
	}

	return text
}
