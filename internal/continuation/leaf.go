package continuation

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
)

// Leaf is the last call of a conversation, or of a branch of one.
type Leaf struct {
	// Turn is the number of the call.
	Turn int

	of *node
}

// Leaves returns the last calls whose prompts were continued by ids and not yet audited, in the order of their
// numbers.
func (f *Forest) Leaves() []Leaf {
	f.mu.Lock()
	defer f.mu.Unlock()

	var all []Leaf

	for open := append([]*node{}, f.roots...); len(open) > 0; {
		n := open[len(open)-1]
		open = append(open[:len(open)-1], n.children...)

		if len(n.children) == 0 && n.parent != nil && !n.audited {
			all = append(all, Leaf{n.turn, n})
		}
	}

	slices.SortFunc(all, func(a, b Leaf) int { return cmp.Compare(a.Turn, b.Turn) })

	return all
}

// AuditLeaf compares the prompt of a leaf with the template's. The messages are those of its request. A failure is a
// fault.NotFound that begins with the word of UnlikeTemplate if they differ; with another error it is not known.
func (f *Forest) AuditLeaf(ctx context.Context, render Render, l Leaf, messages []json.RawMessage) error {
	loose, err := f.looseOf(ctx, render, l.of, messages)
	if err != nil {
		return err
	}

	rendered, err := render(ctx, messages)
	if err != nil {
		return err
	}

	c := l.of.chain()
	last := &c.Links[len(c.Links)-1]
	last.Loose = max(last.Loose, loose)

	f.mu.Lock()
	l.of.audited = true
	f.mu.Unlock()

	return c.Audit(rendered)
}

// looseOf returns how many ids at the end of a prompt the template may write otherwise before a reply. Conversations
// that were read from records do not know it.
func (f *Forest) looseOf(ctx context.Context, render Render, n *node, messages []json.RawMessage) (int, error) {
	f.mu.Lock()
	t := f.template(n.digest)
	splicer, loose, known := t.splicer, t.loose, t.hasLoose
	f.mu.Unlock()

	if known {
		return loose, nil
	}

	link, err := splicer.Continue(ctx, render, n.parent.end, n.parent.reply.calls, messages[len(messages)-len(n.sent):])

	return link.Loose, err
}
