package catalog

import "strings"

// thinking is what is sent as chat_template_kwargs.enable_thinking; nil sends nothing.
//
// Generation 2's disable_thinking decides when given. Generation 1's thinking asks for it, also of an endpoint of
// generation 2; for a model that has no such switch nothing is sent. Else the catalogue's default counts: off, or whatever
// the model does by itself.
func (a mergedRequest) thinking(model string) *bool {
	on, off := true, false

	switch {
	case a.disable != nil && *a.disable:
		return &off
	case a.disable != nil:
		return nil
	case a.think && canThink(model):
		return &on
	case a.think || !a.ep.quiet:
		return nil
	default:
		return &off
	}
}

// canThink reports whether the model's chat template has Qwen's enable_thinking switch: the hybrid Qwen 3
// line, without its instruct-only and coder releases.
func canThink(model string) bool {
	name := strings.ToLower(model)
	if !strings.Contains(name, "qwen3") {
		return false
	}

	for _, fixed := range []string{"instruct", "coder", "embedding", "reranker"} {
		if strings.Contains(name, fixed) {
			return false
		}
	}

	return true
}
