package agent

import (
	"bytes"
	"encoding/json"
	"io"

	"github.com/rolloutd/rolloutd/internal/input/jsoninput"
)

// maxTranscript bounds the output from which a transcript is made, in bytes. sandboxd keeps the first and
// the last MiB of a stream.
const maxTranscript = 2 << 20

// maxOutputMessages bounds the messages of such a transcript.
const maxOutputMessages = 20_000

// messageLimits bound one message, because clients decode it.
func messageLimits() jsoninput.Limits {
	return jsoninput.Limits{Elements: 100_000, Depth: 64}
}

// OutputMessages converts an agent's output to messages. Each line that is a JSON object is a message;
// other lines are left out. Output without such a line is one message {"role": "assistant", "content":
// output}. Empty output has no messages.
func OutputMessages(out []byte) []json.RawMessage {
	out = bytes.TrimSpace(out)
	if len(out) == 0 {
		return nil
	}

	if objects := jsonLines(out); len(objects) > 0 {
		return objects
	}

	text, err := json.Marshal(map[string]string{
		"role":    "assistant",
		"content": string(bytes.ToValidUTF8(out, []byte("?"))),
	})
	if err != nil {
		// a map of strings always encodes
		return nil
	}

	return []json.RawMessage{text}
}

// jsonLines returns the lines that are JSON objects within messageLimits, at most maxOutputMessages of them.
func jsonLines(out []byte) []json.RawMessage {
	var all []json.RawMessage

	for line := range bytes.Lines(out) {
		line = bytes.TrimSpace(line)
		if len(all) == maxOutputMessages || len(line) == 0 || line[0] != '{' || !json.Valid(line) {
			continue
		}

		if _, err := io.Copy(io.Discard, jsoninput.NewReader(bytes.NewReader(line), messageLimits())); err == nil {
			all = append(all, line)
		}
	}

	return all
}
