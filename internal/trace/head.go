package trace

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/rolloutd/rolloutd/internal/rawjson"
)

// append appends the head as encoding/json would. There is one for each call, and reflection would take as
// long as reading a short reply.
func (h *storedHead) append(b []byte) ([]byte, error) {
	w := objectWriter{b: append(b, '{')}
	h.writeCall(&w)
	h.writeReply(&w)
	w.text("log", h.Log)
	w.number("n_request", int64(h.Request))
	w.number("n_reply", int64(h.Reply))
	w.number("n_prompt", int64(h.Prompt))
	w.number("n_token_ids", int64(h.TokenIDs))
	w.number("n_logprobs", int64(h.Logprobs))

	if h.Base != nil {
		h.Base.write(&w)
	}

	if h.Cut != nil {
		h.Cut.write(&w)
	}

	return append(w.b, '}'), w.err
}

// writeCall writes the part of a head about the request and the call.
func (h *storedHead) writeCall(w *objectWriter) {
	w.number("turn", int64(h.Turn))
	w.text("call_id", h.CallID)
	w.textIfAny("api", h.API)
	w.raw("rewritten", h.Rewritten)
	w.text("kind", string(h.Kind))
	w.textIfAny("lineage", h.Lineage)
	w.textIfAny("broken", h.Broken)
	w.time("began", h.Began)
	w.numberIfAny("queued", int64(h.Queued))
	w.number("latency", int64(h.Latency))
	w.number("first_byte", int64(h.FirstByte))
	w.number("status", int64(h.Status))
	w.number("tries", int64(h.Tries))

	if len(h.UpstreamError) > 0 {
		w.value("upstream_error", h.UpstreamError)
	}

	w.textIfAny("engine", h.Engine)
	w.textIfAny("constrained", h.Constrained)
	w.true("eval", h.Eval)

	if len(h.Fixes) > 0 {
		w.value("fixes", h.Fixes)
	}

	w.textIfAny("repaired", h.Repaired)
	w.textIfAny("fallback", h.Fallback)
	w.textIfAny("masked", h.Masked)
	w.numberIfAny("owed", int64(h.Owed))

	if h.Experts != nil {
		w.value("experts", h.Experts)
	}

	if h.SamplingMask != nil {
		w.value("sampling_mask", h.SamplingMask)
	}
}

// writeReply writes the part of a head about the reply.
func (h *storedHead) writeReply(w *objectWriter) {
	if len(h.Flaws) > 0 {
		w.value("flaws", h.Flaws)
	}

	w.textIfAny("finish_reason", h.FinishReason)
	w.textIfAny("model_version", h.ModelVersion)

	if len(h.Versions) > 0 {
		w.value("versions", h.Versions)
	}

	w.object("usage")
	w.number("turns", int64(h.Usage.Turns))
	w.number("prompt_tokens", h.Usage.PromptTokens)
	w.numberIfAny("cached_prompt_tokens", h.Usage.CachedPromptTokens)
	w.number("completion_tokens", h.Usage.CompletionTokens)

	if h.Usage.CostUSD != 0 {
		w.value("cost_usd", h.Usage.CostUSD)
	}

	w.closeObject()
}

func (d *diff) write(w *objectWriter) {
	w.object("base")
	w.number("segment", int64(d.Segment))
	w.number("at", d.At)
	w.number("depth", int64(d.Depth))
	d.Request.write(w, "request")
	d.Prompt.write(w, "prompt")
	w.closeObject()
}

func (s share) write(w *objectWriter, name string) {
	w.object(name)
	w.numberIfAny("prefix", int64(s.Prefix))
	w.numberIfAny("suffix", int64(s.Suffix))
	w.closeObject()
}

func (c *cut) write(w *objectWriter) {
	w.object("cut")
	w.number("at", int64(c.At))
	w.true("spaced", c.Spaced)
	w.closeObject()
}

// append appends the head of a note.
func (n note) append(b []byte) []byte {
	w := objectWriter{b: append(b, '{')}
	w.text("log", n.Log)
	w.number("turn", int64(n.Turn))

	return append(w.b, '}')
}

// objectWriter appends the members of a JSON object.
type objectWriter struct {
	// ends with the opening brace or a member
	b []byte

	// the error of a value that cannot be encoded
	err error
}

func (w *objectWriter) key(name string) {
	if w.b[len(w.b)-1] != '{' {
		w.b = append(w.b, ',')
	}

	w.b = append(append(append(w.b, '"'), name...), '"', ':')
}

// object begins an object as a member; end ends it.
func (w *objectWriter) object(name string) {
	w.key(name)
	w.b = append(w.b, '{')
}

func (w *objectWriter) closeObject() { w.b = append(w.b, '}') }

func (w *objectWriter) text(name, s string) {
	w.key(name)
	w.b = rawjson.AppendQuote(w.b, s)
}

func (w *objectWriter) textIfAny(name, s string) {
	if s != "" {
		w.text(name, s)
	}
}

func (w *objectWriter) number(name string, n int64) {
	w.key(name)
	w.b = strconv.AppendInt(w.b, n, 10)
}

func (w *objectWriter) numberIfAny(name string, n int64) {
	if n != 0 {
		w.number(name, n)
	}
}

func (w *objectWriter) true(name string, on bool) {
	if on {
		w.key(name)
		w.b = append(w.b, "true"...)
	}
}

func (w *objectWriter) time(name string, t time.Time) {
	w.key(name)
	w.b = append(t.AppendFormat(append(w.b, '"'), time.RFC3339Nano), '"')
}

// raw writes a JSON value, if there is one.
func (w *objectWriter) raw(name string, value []byte) {
	if len(value) > 0 {
		w.key(name)
		w.b = append(w.b, value...)
	}
}

// value writes a rare value by encoding/json.
func (w *objectWriter) value(name string, v any) {
	encoded, err := json.Marshal(v)
	if err != nil {
		w.err = err
		return
	}

	w.raw(name, encoded)
}
