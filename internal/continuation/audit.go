package continuation

import (
	"slices"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// Chain is a conversation in ids.
type Chain struct {
	// Opening is the first prompt.
	Opening []int32
	Links   []Link
}

// Link is a reply and what follows it.
type Link struct {
	End End

	// More has the ids between the reply and the next one.
	More []int32

	// Loose is the number of ids at the end of a prompt that the template may write otherwise once a reply follows,
	// such as the beginning of a thought.
	Loose int
}

// With returns the chain with one more link.
func (c Chain) With(l Link) Chain {
	return Chain{c.Opening, append(slices.Clip(c.Links), l)}
}

// Audit compares the conversation with the prompt that the template makes of its messages. Only the spelling
// of the replies may differ: the context around them must be the template's, token by token and in order.
// Each reply in the template's prompt must contain the token with which the model stopped once, at its end.
//
// It knows no special token. A failure is a fault.NotFound with the reason.
func (c Chain) Audit(rendered []int32) error {
	if len(c.Links) == 0 {
		return nil
	}

	tail := c.tail()

	at := len(c.Opening) - commonEnd(c.Opening, tail)
	if at > len(rendered) || !slices.Equal(rendered[:at], c.Opening[:at]) {
		return fault.New(fault.NotFound, UnlikeTemplate)
	}

	for _, l := range c.Links {
		if at = l.find(tail, rendered, at); at < 0 {
			return fault.New(fault.NotFound, UnlikeTemplate)
		}
	}

	if !slices.Equal(rendered[at:], tail) {
		return fault.New(fault.NotFound, UnlikeTemplate)
	}

	return nil
}

// tail is the end of the last prompt that the template may write otherwise before a reply. Which part that is may
// depend on the place of the reply, so the longest counts.
func (c Chain) tail() []int32 {
	loose := 0
	for _, l := range c.Links {
		loose = max(loose, l.Loose)
	}

	last := c.Links[len(c.Links)-1].More

	return last[len(last)-min(loose, len(last)):]
}

// find returns where the context after the reply ends in the template's prompt; -1: nowhere. The reply begins at a
// place, and the context is without the tail of a prompt.
func (l Link) find(tail, rendered []int32, from int) int {
	context := l.More[:len(l.More)-commonEnd(l.More, tail)]

	for at := from; at+len(context) <= len(rendered); at++ {
		// the template's reply ends here
		ends := at > from && rendered[at-1] == l.End.Last && l.End.Stopped

		if (ends || !l.End.Stopped) && slices.Equal(rendered[at:at+len(context)], context) {
			return at + len(context)
		}

		if ends {
			return -1
		}
	}

	return -1
}
