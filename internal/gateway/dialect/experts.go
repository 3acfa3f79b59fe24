package dialect

import (
	"strconv"

	"github.com/rolloutd/rolloutd/internal/gateway/dialect/reply"
	"github.com/rolloutd/rolloutd/internal/rawjson"
)

const (
	// ReturnExperts is the member by which SGLang is asked for routed experts; vLLM has them where it is started so.
	ReturnExperts = "return_routed_experts"

	// ExpertsStart is the member by which SGLang leaves out the rows of the first tokens, expertsPromptStart vLLM's.
	ExpertsStart       = "routed_experts_start_len"
	expertsPromptStart = "routed_experts_prompt_start"

	// ReturnMask is the member by which SGLang is asked for sampling masks, which are in its report on a choice.
	ReturnMask = "return_sampling_mask"
	returnMeta = "return_meta_info"
)

// RoutedExperts says what a call asks of the routed experts.
type RoutedExperts struct {
	Asked bool
	// From is the number of the prompt's first tokens whose rows are left out.
	From int
}

// AskExperts asks for the routed experts, if the call asks for token ids.
func (a *Request) AskExperts() { a.Experts.Asked = a.askReplay(ReturnExperts) }

// AskMask asks for the sampling mask, if the call asks for token ids. SGLang alone has it, on chat completions in its report
// on a choice.
func (a *Request) AskMask() { a.askReplay(ReturnMask, returnMeta) }

// askReplay sets members that engines have in replies that are no streams, and reports whether it did.
func (a *Request) askReplay(members ...string) bool {
	if !a.NeedsIDs || a.API != reply.Chat && a.API != reply.Completions {
		return false
	}

	o, err := rawjson.ParseObject(a.Body)
	if err != nil {
		// the body is always an object
		return false
	}

	d := &Draft{Object: o, Changes: a.Changes}
	for _, member := range members {
		d.Set(member, []byte("true"))
	}

	d.Remove("stream")
	d.Remove(StreamOptions)
	a.Take(d)

	return true
}

// setStart sets the members that leave rows out.
func (e RoutedExperts) setStart(o *rawjson.Object) {
	if !e.Asked || e.From == 0 {
		return
	}

	from := strconv.AppendInt(nil, int64(e.From), 10)
	o.Set(ExpertsStart, from)
	o.Set(expertsPromptStart, from)
}

// PromptOf returns the ids of the prompt that the call sends; nil: it sends none.
func (a *Request) PromptOf() []int32 {
	if a.Prompt.IDs != nil || a.API != reply.Completions {
		return a.Prompt.IDs
	}

	c := rawjson.Cursor{Src: rawjson.MemberOf(a.Body, "prompt")}
	if c.Peek() != '[' {
		return nil
	}

	ids, _ := c.IDs(nil)
	if !c.AtEnd() {
		return nil
	}

	return ids
}
