package scripted

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/rolloutd/rolloutd/internal/clock"
)

// dialect is a model API other than chat completions.
type dialect struct {
	read   func(body []byte) (request, error)
	whole  func(c *call, tokens []token) any
	events func(c *call, tokens []token) []event
}

// event is a server-sent event; kind is its name, "" for none.
type event struct {
	kind string
	data map[string]any
}

func responsesAPI() *dialect {
	return &dialect{
		read:   readResponses,
		whole:  func(c *call, tokens []token) any { return c.wholeResponse(tokens) },
		events: (*call).responseEvents,
	}
}

func messagesAPI() *dialect {
	return &dialect{
		read:   readMessages,
		whole:  func(c *call, _ []token) any { return c.wholeMessage() },
		events: func(c *call, _ []token) []event { return c.messageEvents() },
	}
}

func readChat(body []byte) (request, error) {
	var r request
	return r, json.Unmarshal(body, &r)
}

// answer sends the reply in the dialect. A stream has each part as one event, after the time that all
// chunks would have taken.
func (d *dialect) answer(c *call, w http.ResponseWriter, r *http.Request) {
	if clock.Sleep(r.Context(), time.Duration(len(c.scene.reply.chunks))*c.scene.pace.between()) != nil {
		return
	}

	var tokens []token
	for _, ch := range c.scene.reply.chunks {
		tokens = append(tokens, ch.tokens...)
	}

	c.sent.Status = http.StatusOK
	if c.req.Stream {
		c.sendEvents(w, r, d.events(c, tokens), tokens)
		return
	}

	c.sent.add(tokens)
	c.complete(c.scene.reply.finish)
	writeJSON(w, http.StatusOK, d.whole(c, tokens))
}

func (c *call) sendEvents(w http.ResponseWriter, r *http.Request, events []event, tokens []token) {
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	w.WriteHeader(http.StatusOK)

	var buf []byte

	for i, e := range events {
		last := i == len(events)-1
		if c.breaks(i, w, r, buf) || last && c.fault.NoFinish {
			_, _ = w.Write(buf)
			return
		}
		// maps of strings and numbers always encode
		data, _ := json.Marshal(e.data)
		if e.kind != "" {
			buf = append(append(append(buf, "event: "...), e.kind...), '\n')
		}

		buf = append(append(append(buf, "data: "...), data...), "\n\n"...)

		if last {
			c.sent.add(tokens)
			c.complete(c.scene.reply.finish)
		}
	}

	_, _ = w.Write(buf)
}

func idsOf(tokens []token) []int32 {
	ids := make([]int32, len(tokens))
	for i := range tokens {
		ids[i] = tokens[i].id
	}

	return ids
}

func newWireToolCall(name, arguments string) wireToolCall {
	var c wireToolCall

	c.Function.Name, c.Function.Arguments = name, arguments

	return c
}
