package reply

import (
	"bytes"
	"strconv"

	"github.com/rolloutd/rolloutd/internal/rawjson"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// metaInfo reads SGLang's report on a choice, from return_meta_info: the version of the weights, and the
// tokens as [logprob, id, text], which are used if the choice has no others.
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
		case string(key) == "routed_experts":
			r.experts(c)
		case string(key) == "output_token_sampling_mask":
			maskList(c, &r.MaskAt)
		case string(key) == "output_token_sampling_logprobs":
			maskList(c, &r.MaskLogprobsAt)
		case string(key) == "output_token_logprobs" && c.Peek() == '[':
			// each list of a stream has all tokens so far
			r.meta = r.meta[:0]
			for range c.Elements {
				r.triple(c)
			}
		default:
			c.Skip()
		}
	}
}

// token is a sampled token.
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

// settleMeta uses SGLang's list where no other ids or logprobs were given.
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

// versions reads an object that may name the weights of the reply.
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

// versionSpans reads the weights of each span of tokens: [{"version": …, "start": …, "end": …}]. It
// replaces the single version beside it, which is that of the end.
func (r *Reply) versionSpans(c *rawjson.Cursor) {
	if c.Peek() != '[' {
		c.Skip()
		return
	}

	r.Versions = r.Versions[:0]

	for n := range c.Elements {
		if c.Peek() != '{' || n >= maxVersions {
			c.Skip()
			continue
		}

		var span rollout.VersionSpan

		for key := range c.Fields {
			switch string(key) {
			case "version":
				span.Version = shortText(bytes.Trim(c.Skip(), `"`))
			case "start":
				span.Start = positionOf(c.Skip())
			case "end":
				span.Stop = positionOf(c.Skip())
			default:
				c.Skip()
			}
		}

		r.Versions = append(r.Versions, span)
	}
}

// maxVersions bounds the spans of a reply.
const maxVersions = 1 << 10

// positionOf reads the position of a token; -1: it is none.
func positionOf(raw []byte) int {
	n, err := strconv.Atoi(string(raw))
	if err != nil {
		return -1
	}

	return n
}
