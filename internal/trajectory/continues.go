package trajectory

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/rolloutd/rolloutd/internal/rawjson"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// Continues reports whether a request, as sent to the endpoint, continues a turn of the same API: its messages begin
// with those of the turn's request, and after them come the ids of the reply's tool calls or, in a reply without calls,
// its texts.
func Continues(request []byte, t *rollout.Turn) bool {
	calls, texts := replyParts(t)
	if was, ok := promptOf(t.Request); ok {
		is, _ := promptOf(request)
		rest, begins := strings.CutPrefix(is, was)

		return begins && strings.HasPrefix(strings.TrimSpace(rest), strings.Join(texts, ""))
	}

	was, is := messagesOf(t.Request), messagesOf(request)
	if len(was) == 0 || len(is) <= len(was) {
		return false
	}

	for i := range was {
		if !bytes.Equal(compact(was[i]), compact(is[i])) {
			return false
		}
	}

	repeated := stringsIn(is[len(was):])
	if len(calls) > 0 {
		return containsAll(repeated, calls)
	}

	return containsAll(repeated, texts)
}

// delegateTool is the tool by which OpenCode's model starts a subagent.
const delegateTool = "task"

// Delegates reports whether a request, as sent to the endpoint, is of a subagent that the reply of a turn started: the
// prompt of one of the reply's calls is among its messages. It reads chat completions.
func Delegates(request []byte, t *rollout.Turn) bool {
	var reply struct {
		Choices []struct {
			Message struct {
				ToolCalls []struct {
					Function struct{ Name, Arguments string }
				} `json:"tool_calls"`
			}
		}
	}
	if json.Unmarshal(t.Response, &reply) != nil {
		return false
	}

	inRequest := stringsIn(messagesOf(request))

	for _, c := range reply.Choices {
		for _, call := range c.Message.ToolCalls {
			var args struct{ Prompt string }
			if call.Function.Name != delegateTool || json.Unmarshal([]byte(call.Function.Arguments), &args) != nil {
				continue
			}

			if prompt := strings.TrimSpace(args.Prompt); prompt != "" && inRequest[prompt] {
				return true
			}
		}
	}

	return false
}

// promptOf returns the prompt of a request for a completion of text.
func promptOf(request []byte) (prompt string, ok bool) {
	err := json.Unmarshal(rawjson.MemberOf(request, "prompt"), &prompt)
	return prompt, err == nil
}

// messagesOf returns the messages of a request, or its input items.
func messagesOf(request []byte) []json.RawMessage {
	for _, key := range []string{"messages", "input"} {
		if all, ok := elements(rawjson.MemberOf(request, key)); ok {
			return all
		}
	}

	return nil
}

// compact returns a message without white space between its values.
func compact(message []byte) []byte {
	var out bytes.Buffer
	if json.Compact(&out, message) != nil {
		return message
	}

	return out.Bytes()
}

// stringsIn returns the strings in messages, trimmed.
func stringsIn(messages []json.RawMessage) map[string]bool {
	found := map[string]bool{}

	for _, m := range messages {
		for d := json.NewDecoder(bytes.NewReader(m)); ; {
			token, err := d.Token()
			if err != nil {
				break
			}

			if s, ok := token.(string); ok {
				found[strings.TrimSpace(s)] = true
			}
		}
	}

	return found
}

func containsAll(found map[string]bool, want []string) bool {
	for _, s := range want {
		if !found[s] {
			return false
		}
	}

	return true
}

// replyParts returns the ids of a reply's tool calls, and its texts that are not empty.
func replyParts(t *rollout.Turn) (calls, texts []string) {
	var r struct {
		// chat.completion, text_completion
		Choices []struct {
			Text    string
			Message struct {
				Content          any
				ReasoningContent string                `json:"reasoning_content"`
				ToolCalls        []struct{ ID string } `json:"tool_calls"`
			}
		}

		// response
		Output []struct {
			CallID  string `json:"call_id"`
			Content []struct{ Text string }
		}

		// message
		Content []struct{ Type, ID, Text string }
	}
	if json.Unmarshal(t.Response, &r) != nil {
		return nil, nil
	}

	for _, c := range r.Choices {
		content, _ := c.Message.Content.(string)

		texts = append(texts, c.Text, content, c.Message.ReasoningContent)
		for _, call := range c.Message.ToolCalls {
			calls = append(calls, call.ID)
		}
	}

	for _, item := range r.Output {
		if item.CallID != "" {
			calls = append(calls, item.CallID)
		}

		for _, part := range item.Content {
			texts = append(texts, part.Text)
		}
	}

	for _, block := range r.Content {
		if block.Type == "tool_use" {
			calls = append(calls, block.ID)
		}

		texts = append(texts, block.Text)
	}

	return calls, trimmed(texts)
}

func trimmed(texts []string) []string {
	var out []string

	for _, text := range texts {
		if text = strings.TrimSpace(text); text != "" {
			out = append(out, text)
		}
	}

	return out
}
