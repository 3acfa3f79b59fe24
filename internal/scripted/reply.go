package scripted

import "slices"

// reply is a turn prepared for sending: it is cut into tokens and chunks once, when the server is created.
type reply struct {
	reasoning, text string
	calls           []readyCall
	finish          string

	// the last one is the end: the turn's end token, no text
	chunks []chunk
	tokens int
}

type readyCall struct{ name, arguments string }

// chunk is one event of the stream. Its tokens may join to more than its text: they include the model's
// markup, which servers remove.
type chunk struct {
	kind chunkKind
	call int

	// text as a JSON string
	quoted []byte
	tokens []token
}

type chunkKind int

const (
	chunkReasoning chunkKind = iota
	chunkText

	// opens a call: id and name
	chunkCall

	// text is a part of the call's arguments
	chunkArguments
	chunkEnd
)

// newReply cuts a valid turn.
func newReply(t Turn, perChunk int) *reply {
	r := &reply{reasoning: t.Reasoning, text: t.Text + filler(t.Filler), finish: t.FinishReason}
	if r.finish == "" {
		r.finish = "stop"
		if len(t.ToolCalls) > 0 {
			r.finish = "tool_calls"
		}
	}

	c := &cutter{reply: r, perChunk: max(perChunk, 1)}
	if r.reasoning != "" {
		c.prependMarkup(thinkStart)
		c.cut(chunkReasoning, 0, r.reasoning)
		c.appendMarkup(thinkEnd)
	}

	c.cut(chunkText, 0, r.text)

	for i, call := range t.ToolCalls {
		// valid: checked by Validate
		arguments, _ := call.json()
		r.calls = append(r.calls, readyCall{call.Name, arguments})

		c.prependMarkup(callStart)
		c.prependMarkup(pieces(callHead(call.Name))...)
		c.flush(chunkCall, i, "")
		c.cut(chunkArguments, i, arguments)
		c.appendMarkup(callTail, callEnd)
	}

	c.prependMarkup(turnEnd)
	c.flush(chunkEnd, 0, "")
	r.tokens = c.position

	return r
}

// cutter builds a reply's chunks; waiting has the tokens for the next chunk.
type cutter struct {
	reply    *reply
	perChunk int
	position int
	waiting  []token
}

// prependMarkup adds markup to the start of the next chunk.
func (c *cutter) prependMarkup(markup ...string) {
	for _, piece := range markup {
		c.waiting = append(c.waiting, newToken(piece, tokenID(piece), c.position))
		c.position++
	}
}

// appendMarkup adds markup to the end of the last chunk.
func (c *cutter) appendMarkup(markup ...string) {
	c.prependMarkup(markup...)
	last := &c.reply.chunks[len(c.reply.chunks)-1]
	last.tokens = append(last.tokens, c.waiting...)
	c.waiting = nil
}

// cut adds text as chunks of perChunk tokens.
func (c *cutter) cut(kind chunkKind, call int, text string) {
	for part := range slices.Chunk(pieces(text), c.perChunk) {
		joined := ""
		for _, piece := range part {
			joined += piece
		}

		c.prependMarkup(part...)
		c.flush(kind, call, joined)
	}
}

func (c *cutter) flush(kind chunkKind, call int, text string) {
	c.reply.chunks = append(c.reply.chunks, chunk{kind, call, appendString(nil, text), c.waiting})
	c.waiting = nil
}

func pieces(text string) []string {
	var all []string

	for len(text) > 0 {
		n := nextPiece(text)
		all = append(all, text[:n])
		text = text[n:]
	}

	return all
}

// filler is prose of n tokens.
func filler(n int) string {
	words := [...]string{
		" the", " agent", " reads", " a", " file", " and", " then", " writes", " another", " one", " so",
		" that", " tests", " pass",
	}

	var text []byte
	for i := range n {
		text = append(text, words[(i*i+3*i)%len(words)]...)
	}

	return string(text)
}
