package chat

// addDelta joins what one chunk adds to the message. Reasoning goes under one of two names, or under both with the same
// text.
func (c *Completion) addDelta(in *cursor) {
	if in.null() {
		return
	}
	var thought, thoughtToo []byte
	for key := range in.fields {
		switch string(key) {
		case "content":
			c.spoke = in.peek() == '"' || c.spoke
			c.content = append(c.content, in.inner()...)
		case "reasoning_content":
			thought = in.inner()
		case "reasoning":
			thoughtToo = in.inner()
		case "refusal":
			c.refusal = append(c.refusal, in.inner()...)
		case "tool_calls":
			c.addCalls(in)
		default:
			in.skip()
		}
	}
	if len(thought) == 0 {
		thought = thoughtToo
	}
	c.reasoning = append(c.reasoning, thought...)
}

// inner steps over a value, and returns what is between the quotes when it is a string.
func (c *cursor) inner() []byte {
	if c.peek() == '"' {
		return c.str()
	}
	c.skip()
	return nil
}

func (c *Completion) addCalls(in *cursor) {
	if in.null() {
		return
	}
	for n := range in.elements {
		piece := toolCall{at: int64(n)} // an engine that gives no index gives whole calls in order
		for key := range in.fields {
			switch string(key) {
			case "index":
				if !in.null() {
					piece.at = in.integer()
				}
			case "id":
				piece.id = in.inner()
			case "type":
				piece.kind = in.inner()
			case "function":
				piece.addFunction(in)
			default:
				in.skip()
			}
		}
		c.addPiece(piece)
	}
}

func (t *toolCall) addFunction(in *cursor) {
	if in.null() {
		return
	}
	for key := range in.fields {
		switch string(key) {
		case "name":
			t.name = in.inner()
		case "arguments":
			t.argsRaw = in.arguments()
		default:
			in.skip()
		}
	}
}

// arguments are a JSON text in a string; some engines leave the string out.
func (c *cursor) arguments() []byte {
	if c.peek() != '{' {
		return c.inner()
	}
	text := quote(string(c.skip()))
	return text[1 : len(text)-1]
}

// addPiece joins a piece to the call of its index.
func (c *Completion) addPiece(piece toolCall) {
	var found *toolCall
	for i := range c.calls {
		if c.calls[i].at == piece.at {
			found = &c.calls[i]
		}
	}
	if found == nil {
		c.calls = append(c.calls, toolCall{at: piece.at, kind: []byte("function")})
		found = &c.calls[len(c.calls)-1]
	}
	if len(piece.id) > 0 {
		found.id = piece.id
	}
	if len(piece.kind) > 0 {
		found.kind = piece.kind
	}
	found.name = append(found.name, piece.name...)
	found.argsRaw = append(found.argsRaw, piece.argsRaw...)
}
