package reply

import (
	"bytes"

	"github.com/rolloutd/rolloutd/internal/rawjson"
)

// metaInfo reads SGLang's own account of a choice, which it gives on return_meta_info: the version of the weights, and the
// tokens as [logprob, id, text], which count where the choice has no others.
func (r *Reply) metaInfo(c *rawjson.Cursor) {
	if c.Null() {
		return
	}
	for key := range c.Fields {
		switch {
		case string(key) == "weight_version":
			r.sawVersion(c.Skip())
		case string(key) == "weight_versions":
			r.versionSpans(c)
		case string(key) == "output_token_logprobs" && c.Peek() == '[':
			r.meta = r.meta[:0] // they grow with each piece of a stream: the last list has all
			for range c.Elements {
				r.triple(c)
			}
		default:
			c.Skip()
		}
	}
}

// token is one that was sampled.
type token struct {
	id      int32
	logprob float64
}

func (r *Reply) triple(c *rawjson.Cursor) {
	var t token
	for n := range c.Elements {
		switch n {
		case 0:
			t.logprob = c.Float()
		case 1:
			t.id = c.ID()
		default:
			c.Skip()
		}
	}
	r.meta = append(r.meta, t)
	c.Require(len(r.meta) <= maxTokens)
}

// settleMeta takes SGLang's own list where nothing else gave ids, or logprobs.
func (r *Reply) settleMeta() {
	noIDs, noLogprobs := len(r.TokenIDs) == 0, len(r.Logprobs) == 0
	for _, t := range r.meta {
		if noIDs {
			r.TokenIDs = append(r.TokenIDs, t.id)
		}
		if noLogprobs {
			r.Logprobs = append(r.Logprobs, t.logprob)
		}
	}
}

// versions reads an object that says, among other things, what weights made the reply.
func (r *Reply) versions(c *rawjson.Cursor) {
	if c.Peek() != '{' {
		c.Skip()
		return
	}
	for key := range c.Fields {
		switch string(key) {
		case "weight_version":
			r.sawVersion(c.Skip())
		case "weight_versions":
			r.versionSpans(c)
		default:
			c.Skip()
		}
	}
}

// versionSpans reads which weights made which tokens, as [{"version": …, "start": …, "end": …}]. It counts in place of the single version beside it, which
// is that of the end.
func (r *Reply) versionSpans(c *rawjson.Cursor) {
	if c.Peek() != '[' {
		c.Skip()
		return
	}
	var first, last string
	for range c.Elements {
		if c.Peek() != '{' {
			c.Skip()
			continue
		}
		for key := range c.Fields {
			value := c.Skip()
			if string(key) != "version" {
				continue
			}
			if last = shortText(bytes.Trim(value, `"`)); first == "" {
				first = last
			}
		}
	}
	r.spans = [2]string{first, last}
}
