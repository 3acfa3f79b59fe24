package scripted

import (
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"github.com/rolloutd/rolloutd/internal/clock"
)

// whole answers a request that asked for no stream, once all of it would have been generated.
func (c *call) whole(w http.ResponseWriter, r *http.Request) {
	rep := c.scene.reply
	if clock.Sleep(r.Context(), time.Duration(len(rep.chunks))*c.scene.pace.between()) != nil {
		return
	}
	f := c.fault
	switch {
	case f.HangAfter != nil:
		<-r.Context().Done()
		return
	case f.CutAfter != nil:
		panic(http.ErrAbortHandler) // the one way to close the connection without a proper end
	case f.ErrorAfter != nil:
		c.sent.Status = http.StatusInternalServerError
		writeError(w, c.sent.Status, "scripted failure")
		return
	}
	c.sent.Status = http.StatusOK
	var tokens []token
	for i := range rep.chunks {
		tokens = append(tokens, rep.chunks[i].tokens...)
	}
	c.sent.add(tokens)
	choice := map[string]any{"index": 0, "message": c.message(), "logprobs": json.RawMessage(c.appendLogprobs(nil, tokens)), "finish_reason": rep.finish}
	body := map[string]any{
		"id": "chatcmpl-" + c.id, "object": "chat.completion", "created": c.begun.Unix(), "model": c.req.Model,
		"choices": []any{choice}, "usage": json.RawMessage(c.appendUsage(nil)),
	}
	finish := rep.finish
	if f.NoFinish {
		finish, choice["finish_reason"] = "", nil
	}
	if c.req.ReturnTokenIDs {
		body["prompt_token_ids"], choice["token_ids"] = c.prompt, slices.Clone(c.sent.CompletionTokenIDs)
	}
	c.complete(finish)
	writeJSON(w, http.StatusOK, body)
}

func (c *call) message() map[string]any {
	m := map[string]any{"role": "assistant", "content": c.scene.reply.text}
	if c.scene.reply.reasoning != "" {
		m["reasoning_content"] = c.scene.reply.reasoning
	}
	var calls []any
	for i, k := range c.scene.reply.calls {
		calls = append(calls, map[string]any{"id": c.callID(i), "type": "function",
			"function": map[string]any{"name": k.name, "arguments": k.arguments}})
	}
	if calls != nil {
		m["tool_calls"] = calls
	}
	return m
}
