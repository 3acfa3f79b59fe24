package main

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"net/http"
	"strings"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

// talkUser is the "user" member of the calls of a conversation, which the mock engine answers with a tool call.
const talkUser = "talk"

// Ids of the mock engine's special tokens. Words have larger ones.
const (
	endToken = 1 + iota
	startToken
	firstWord
)

// talkCall is a call of an agent that speaks messages, or a request to tokenise one.
type talkCall struct {
	User     string        `json:"user"`
	Messages []talkMessage `json:"messages"`
	KV       *struct {
		IDs []int32 `json:"prompt_token_ids"`
	} `json:"kv_transfer_params"`
}

type talkMessage struct {
	Role       string         `json:"role"`
	Content    string         `json:"content"`
	ToolCallID string         `json:"tool_call_id,omitempty"`
	ToolCalls  []talkToolCall `json:"tool_calls,omitempty"`
}

type talkToolCall struct {
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

// ids returns the tokens of a message, after its role and up to its end.
func (m talkMessage) ids() []int32 {
	ids := wordIDs(nil, m.Content)
	for _, c := range m.ToolCalls {
		ids = wordIDs(ids, c.Function.Name+" "+c.Function.Arguments)
	}

	return append(ids, endToken)
}

func wordIDs(ids []int32, text string) []int32 {
	const words = 150_000

	for word := range strings.FieldsSeq(text) {
		h := fnv.New32a()
		// never fails
		_, _ = h.Write([]byte(word))
		ids = append(ids, firstWord+int32(h.Sum32()%words))
	}

	return ids
}

// prompt applies the mock engine's template.
func (c talkCall) prompt() []int32 {
	var ids []int32
	for _, m := range c.Messages {
		ids = append(wordIDs(append(ids, startToken), m.Role), m.ids()...)
	}

	return wordIDs(append(ids, startToken), "assistant")
}

// talkReply is what the model says after that many messages: a tool call of some words.
func talkReply(messages, words int) talkMessage {
	var text strings.Builder
	for i := range words {
		fmt.Fprintf(&text, " word-%d-%d", messages, i)
	}

	call := talkToolCall{ID: fmt.Sprint("call-", messages), Type: "function"}
	call.Function.Name, call.Function.Arguments = "bash", fmt.Sprintf(`{"v":"%s"}`, text.String())

	return talkMessage{Role: "assistant", ToolCalls: []talkToolCall{call}}
}

// talkWords is the number of words of a reply.
const talkWords = 100

// answer answers a call of a conversation as vLLM does, and /tokenize.
func (c talkCall) answer(w http.ResponseWriter, path string) {
	w.Header().Set("Content-Type", "application/json")

	prompt := c.prompt()
	if path == "/tokenize" {
		writeObject(w, map[string]any{"tokens": prompt, "count": len(prompt)})
		return
	}

	if c.KV != nil {
		prompt = c.KV.IDs
	}

	says := talkReply(len(c.Messages), talkWords)
	ids := says.ids()
	token := json.RawMessage(entry + `,"top_logprobs":[` + list(5, entry+"}") + `]}`)

	writeObject(w, map[string]any{
		"id": "chatcmpl-0123456789", "object": "chat.completion", "created": 1767323045, "model": "m",
		"prompt_token_ids": prompt,
		"choices": []any{map[string]any{
			"index": 0, "message": says, "finish_reason": "tool_calls", "stop_reason": nil, "token_ids": ids,
			"logprobs": map[string]any{"content": repeat(token, len(ids))},
		}},
		"usage": map[string]int{"prompt_tokens": len(prompt), "completion_tokens": len(ids)},
	})
}

func repeat(one json.RawMessage, n int) []json.RawMessage {
	all := make([]json.RawMessage, n)
	for i := range all {
		all[i] = one
	}

	return all
}

// writeObject writes to an agent that may be gone.
func writeObject(w http.ResponseWriter, object any) { _ = json.NewEncoder(w).Encode(object) }

// conversation returns the requests of an agent that calls tools, in order. The name makes it another conversation
// than those before.
func (l load) conversation(name string) []string {
	messages := []talkMessage{{Role: "user", Content: name + strings.Repeat(" some", l.words/l.steps)}}

	var all []string

	for range l.steps {
		// texts always encode
		raw, _ := json.Marshal(talkCall{User: talkUser, Messages: messages})
		all = append(all, fmt.Sprintf(`{"model":"m","max_tokens":4000,%s`, raw[1:]))

		says := talkReply(len(messages), talkWords)
		messages = append(messages, says, talkMessage{
			Role: "tool", ToolCallID: says.ToolCalls[0].ID, Content: strings.Repeat("some ", l.words/l.steps),
		})
	}

	return all
}

// talks reports whether the calls are those of conversations, each of a rollout of its own.
func (l load) talks() bool { return l.continues != "" }

// conversations returns the two loads whose difference is what continuing by ids costs.
func conversations() []load {
	turns := func(how rollout.Continuation) load {
		return load{
			name: "turn of 40, to 30k tokens, by " + string(how), calls: 320, at: 8, steps: 40, words: 30000, continues: how,
		}
	}

	return []load{turns(rollout.ContinuationMessages), turns(rollout.ContinuationRequired)}
}
