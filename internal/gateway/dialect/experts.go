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
)

// RoutedExperts says what a call asks of the routed experts.
type RoutedExperts struct {
	Asked bool
	// From is the number of the prompt's first tokens whose rows are left out.
	From int
}

// AskExperts asks for the routed experts, if the call asks for token ids. Engines give them in replies that are no
// streams.
func (a *Request) AskExperts() {
	if !a.NeedsIDs || a.API != reply.Chat && a.API != reply.Completions {
		return
	}

	o, err := rawjson.ParseObject(a.Body)
	if err != nil {
		// the body is always an object
		return
	}

	d := &Draft{Object: o, Changes: a.Changes}
	d.Set(ReturnExperts, []byte("true"))
	d.Remove("stream")
	d.Remove(StreamOptions)
	a.Take(d)
	a.Experts.Asked = true
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
	if !c.End() {
		return nil
	}

	return ids
}
