package render

import (
	"bytes"

	"github.com/rolloutd/rolloutd/internal/gateway/dialect/reply"
	"github.com/rolloutd/rolloutd/internal/rawjson"
)

// Normal rewrites chat completions in OpenAI's form, as agents expect it.
type Normal struct {
	// the agent uses functions, as before tools
	Functions bool

	// makes the id of the n-th tool call if the endpoint gives none
	ID func(n int) string

	// set by Of: the finish reason
	Finish string
}

// Of rewrites a complete reply, a stream or one object. Of a stream it keeps the first begun bytes, which
// are whole events: an agent may have seen them. It returns nil if there is nothing to rewrite: arguments
// that are not JSON, and too many calls, are the model's own. The error says that the reply cannot be
// understood.
func (n *Normal) Of(raw []byte, begun int, irregular string) ([]byte, error) {
	object := rawjson.IsObject(raw)
	if object {
		begun = 0
	}

	c := Completion{started: begun > 0}
	if err := c.gather(raw[begun:]); err != nil {
		return nil, err
	}

	before := c.argsSize()
	if c.join() != nil {
		// more calls than the gateway joins, which is the model's doing
		return nil, nil
	}

	if irregular == reply.BadArguments && c.argsSize() == before && !c.argless() {
		return nil, nil
	}

	n.fix(&c)

	if object {
		return c.JSON(), nil
	}

	c.uncounted = c.usage == nil

	return append(bytes.Clone(raw[:begun]), c.Events()...), nil
}

// argsSize returns the length of all arguments.
func (c *Completion) argsSize() (size int) {
	for _, p := range c.pieces {
		size += len(p.Args)
	}

	for _, call := range c.calls {
		size += len(call.Args)
	}

	return size
}

// argless reports whether a call has no arguments.
func (c *Completion) argless() bool {
	for _, call := range c.calls {
		if call.Argless() {
			return true
		}
	}

	return false
}

// fix completes the calls and the finish reason.
func (n *Normal) fix(c *Completion) {
	if c.function != nil && !n.Functions {
		// else it repeats the first
		if len(c.calls) == 0 {
			c.calls = append(c.calls, *c.function)
		}

		c.function = nil
	}

	finish := reply.Finish(rawjson.TextOf(c.reason()), len(c.calls) > 0)
	taken := map[string]bool{"": true}

	for i := range c.calls {
		call := &c.calls[i]
		for at := i; taken[string(call.ID)]; at += maxParts {
			call.ID = []byte(n.ID(at))
		}

		taken[string(call.ID)] = true
		if call.Argless() && finish != "length" {
			call.Args = []byte("{}")
		}
	}

	if c.function != nil {
		finish = "function_call"
	}

	n.Finish, c.finish = finish, rawjson.Quote(finish)
}

// reason returns the finish reason as a string: some engines give an object with its type.
func (c *Completion) reason() []byte {
	if rawjson.IsObject(c.finish) {
		return rawjson.MemberOf(c.finish, "type")
	}

	return c.finish
}
