package react

import (
	"slices"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// chain is a conversation in ids.
type chain struct {
	// the first prompt
	opening []int32
	links   []link
}

// link is a reply and what follows it.
type link struct {
	end ending

	// between the reply and the next one
	more []int32
}

// audit compares the conversation with the prompt that the template makes of its messages. Only the spelling
// of the replies may differ: the context around them must be the template's, token by token and in order.
// Each reply in the template's prompt must contain the token with which the model stopped once, at its end.
//
// It knows no special token. A failure is a fault.NotFound with the reason.
func (c *chain) audit(rendered []int32) error {
	if len(c.links) == 0 {
		return nil
	}

	// Every prompt ends with the begin of a reply, which the template may write otherwise once there is a
	// reply. It is within the common end of all prompts, the tail.
	last := c.links[len(c.links)-1].more
	tail := last[len(last)-commonEnd(commonTail(c.opening, last), rendered):]

	at := len(c.opening) - len(tail)
	if at > len(rendered) || !slices.Equal(rendered[:at], c.opening[:at]) {
		return fault.New(fault.NotFound, unlikeTemplate)
	}

	for _, l := range c.links {
		if at = l.find(tail, rendered, at); at < 0 {
			return fault.New(fault.NotFound, unlikeTemplate)
		}
	}

	if len(rendered)-at != len(tail) {
		return fault.New(fault.NotFound, unlikeTemplate)
	}

	return nil
}

// find returns where the context after the reply ends in the template's prompt; -1: nowhere. The tail before
// the reply begins at a place, and the context is without its own tail.
func (l link) find(tail, rendered []int32, from int) int {
	context := l.more[:len(l.more)-commonEnd(l.more, tail)]

	// the model's last token, in the tail and at the end of the reply
	stops := 1

	for _, id := range tail {
		if id == l.end.last {
			stops++
		}
	}

	for at := from; at+len(context) <= len(rendered); at++ {
		if at > from && rendered[at-1] == l.end.last {
			stops--
		}

		if (stops == 0 || !l.end.stopped) && slices.Equal(rendered[at:at+len(context)], context) {
			return at + len(context)
		}

		// the template's reply has ended
		if stops == 0 && l.end.stopped {
			return -1
		}
	}

	return -1
}

// commonTail is the common suffix of two lists.
func commonTail(a, b []int32) []int32 { return a[len(a)-commonEnd(a, b):] }
