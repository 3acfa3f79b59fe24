package scripted

import (
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"github.com/rolloutd/rolloutd/internal/clock"
)

// stream sends the reply as server-sent events. Without a pace it does not flush each event: a load test
// would otherwise measure one write per token.
func (c *call) stream(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	w.WriteHeader(http.StatusOK)
	c.sent.Status = http.StatusOK
	out := http.NewResponseController(w)
	delay, begun := c.scene.pace.between(), time.Now()

	buf := c.appendRole(nil)
	for i := range c.scene.reply.chunks {
		if c.breaks(i, w, r, buf) {
			return
		}

		ch := &c.scene.reply.chunks[i]
		if ch.kind == chunkEnd {
			break
		}

		buf = c.appendChunk(buf, ch, "")
		if _, err := w.Write(buf); err != nil {
			return
		}

		c.sent.add(ch.tokens)

		buf = buf[:0]

		if delay > 0 {
			// Paced from the start, so that a late wake-up does not slow the whole stream.
			if out.Flush() != nil || clock.Sleep(r.Context(), time.Until(begun.Add(time.Duration(i+1)*delay))) != nil {
				return
			}
		}
	}

	c.sendEnd(w, buf)
}

// sendEnd sends the end chunk, the usage and [DONE].
func (c *call) sendEnd(w http.ResponseWriter, buf []byte) {
	last := &c.scene.reply.chunks[len(c.scene.reply.chunks)-1]

	finish := ""
	if !c.fault.NoFinish {
		finish = c.scene.reply.finish
		buf = c.appendChunk(buf, last, finish)
		c.sent.add(last.tokens)
	}

	if c.req.StreamOptions.IncludeUsage {
		buf = c.appendUsageChunk(buf)
	}

	if _, err := w.Write(buf); err != nil {
		return
	}

	c.complete(finish)

	_, _ = w.Write([]byte("data: [DONE]\n\n"))
}

// breaks sends a fault that comes before chunk i, and reports whether the stream has ended. buf has the bytes
// that are not sent yet.
func (c *call) breaks(i int, w http.ResponseWriter, r *http.Request, buf []byte) bool {
	after := func(n *int) bool { return n != nil && i >= min(*n, len(c.scene.reply.chunks)-1) }

	f := c.fault
	if !after(f.HangAfter) && !after(f.CutAfter) && !after(f.ErrorAfter) {
		return false
	}

	if f.ErrorAfter != nil {
		buf = append(
			buf,
			`data: {"error":{"message":"scripted failure in the stream","type":"server_error","code":500}}`+"\n\n"...)
	}

	_, _ = w.Write(buf)
	// the caller sees all that came before the break
	_ = http.NewResponseController(w).Flush()

	switch {
	case f.HangAfter != nil:
		<-r.Context().Done()
	case f.CutAfter != nil:
		// the one way to close the connection without a proper end
		panic(http.ErrAbortHandler)
	}

	return true
}

// between is the time from one chunk to the next.
func (p Pace) between() time.Duration {
	if p.TokensPerSecond > 0 {
		return time.Duration(float64(max(p.TokensPerChunk, 1)) / p.TokensPerSecond * float64(time.Second))
	}

	return p.ChunkDelay
}

// answerAtOnce answers a request without a stream, after the time that all chunks take.
func (c *call) answerAtOnce(w http.ResponseWriter, r *http.Request) {
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
		// the one way to close the connection without a proper end
		panic(http.ErrAbortHandler)
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
	choice := map[string]any{
		"index":         0,
		"message":       c.message(),
		"logprobs":      json.RawMessage(c.appendLogprobs(nil, tokens)),
		"finish_reason": rep.finish,
	}
	body := map[string]any{
		"id": "chatcmpl-" + c.id, "object": "chat.completion", "created": c.created.Unix(), "model": c.req.Model,
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
