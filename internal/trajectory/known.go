package trajectory

import (
	"encoding/json"
	"strings"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

// TranscriptReplies holds the model's replies in an agent's transcript: ids of tool calls, and texts.
type TranscriptReplies struct {
	calls map[string]bool
	texts map[string]bool
	lost  bool // the transcript cannot be read
}

// unknownFlaw is the flaw of a turn that is complete but not in the transcript.
const unknownFlaw = "the agent's transcript does not know this reply: not trained on"

// NewTranscriptReplies reads a transcript in OpenCode's form {info, parts}. Without replies, or in another form, it is empty.
func NewTranscriptReplies(t rollout.Transcript) *TranscriptReplies {
	s := &TranscriptReplies{calls: map[string]bool{}, texts: map[string]bool{}}
	for _, raw := range t.Messages {
		var m struct {
			Info  struct{ Role string }
			Parts []struct{ Type, Text, CallID string }
		}
		if json.Unmarshal(raw, &m) != nil || m.Info.Role != "assistant" {
			continue
		}
		for _, p := range m.Parts {
			switch p.Type {
			case "tool":
				s.calls[p.CallID] = true
			case "text", "reasoning":
				s.texts[strings.TrimSpace(p.Text)] = true
			}
		}
	}
	return s
}

// UnreadableTranscript returns the replies of an unreadable transcript, which has no reply.
func UnreadableTranscript() *TranscriptReplies { return &TranscriptReplies{lost: true} }

// Empty reports whether the transcript has no reply, so that turns cannot be checked against it.
func (s *TranscriptReplies) Empty() bool { return !s.lost && len(s.calls)+len(s.texts) == 0 }

// Knows reports whether the transcript has a turn's reply: one of its tool calls, or its text. A reply without both counts as known.
func (s *TranscriptReplies) Knows(t *rollout.Turn) bool {
	if s.lost {
		return false
	}
	calls, texts := replyParts(t)
	for _, id := range calls {
		if s.calls[id] {
			return true
		}
	}
	if len(calls) > 0 {
		return false
	}
	for _, text := range texts {
		if s.texts[text] {
			return true
		}
	}
	return len(texts) == 0
}

// replyParts returns the ids of a reply's tool calls, and its texts that are not empty.
func replyParts(t *rollout.Turn) (calls, texts []string) {
	var r struct {
		Choices []struct { // chat.completion, text_completion
			Text    string
			Message struct {
				Content          any
				ReasoningContent string                `json:"reasoning_content"`
				ToolCalls        []struct{ ID string } `json:"tool_calls"`
			}
		}
		Output []struct { // response
			CallID  string `json:"call_id"`
			Content []struct{ Text string }
		}
		Content []struct{ Type, ID, Text string } // message
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
