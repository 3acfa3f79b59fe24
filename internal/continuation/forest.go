package continuation

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"slices"
	"strings"
	"sync"

	"github.com/rolloutd/rolloutd/internal/fault"
)

const (
	// maxSize bounds the ids and messages of a forest, in bytes. One with more is forgotten, and its conversations begin
	// anew. It fits two million ids.
	maxSize = 16 << 20
	// auditEvery is the number of turns of a conversation after which its prompt is audited again. Before, turns are
	// audited whose number is a power of two.
	auditEvery = 16
	// maxRead, in bytes, and maxTemplates bound what is kept only to be faster.
	maxRead, maxTemplates = 2 << 20, 1 << 6

	// size of an id, in bytes
	idSize = 4
)

// Forest has the conversations of a rollout: of its agent, its subagents, and each branch of them. Nodes are added and
// never changed. It is safe for concurrent use; the zero value is empty.
type Forest struct {
	// RenderUserTurns: a user message after a final answer begins a new prompt by messages, as a template that then
	// shows no earlier thoughts would have it. Set before the first use.
	RenderUserTurns bool

	mu    sync.Mutex
	roots []*node

	// a call was answered
	begun bool

	// size of the ids and messages of the nodes, in bytes
	size int

	// messages that were read, by their bytes: each request repeats those before
	read map[Digest]message

	// size of these, in bytes
	readSize int

	// by the digest of what else makes a prompt
	templates map[Digest]*template

	// why no prompt continues by ids any more; "": they may
	off string
}

// Digest stands for all of a request that makes its prompt, except for the messages.
type Digest = [sha256.Size]byte

// template is what is known of prompts with one digest.
type template struct {
	splicer Splicer

	// audited: by the roles of what follows a reply
	audited map[string]bool

	// the most ids at the end of a prompt that may be written otherwise before a reply; known since its first use
	loose    int
	hasLoose bool

	// why its conversations do not continue; "": they may
	off string
}

// node is a call: its prompt and its reply.
type node struct {
	parent *node
	digest Digest

	// messages after the reply of the parent
	sent []message

	// ids of the prompt: those after the parent's reply, or all
	more    []int32
	loose   int
	sampled []int32

	reply message
	end   End

	// why the reply is not continued; "": it may be
	unfit string

	// the number of the call
	turn int

	// the prompt was compared with the template's, or is the template's own
	audited bool

	depth    int
	children []*node
}

// answers reports whether the reply is a final answer.
func (n *node) answers() bool { return len(n.reply.calls) == 0 }

// prompt returns the ids of the node's prompt, with room for more.
func (n *node) prompt(room int) []int32 {
	size := room
	for at := n; at != nil; at = at.parent {
		size += len(at.sampled) + len(at.more)
	}

	return n.appendPrompt(make([]int32, 0, size))
}

func (n *node) appendPrompt(ids []int32) []int32 {
	if n.parent != nil {
		ids = append(n.parent.appendPrompt(ids), n.parent.sampled...)
	}

	return append(ids, n.more...)
}

// begins reports whether a prompt begins with that of the node and its reply, and how long these are.
func (n *node) begins(prompt []int32) (length int, ok bool) {
	if n.parent != nil {
		if length, ok = n.parent.begins(prompt); !ok {
			return 0, false
		}
	}

	for _, part := range [][]int32{n.more, n.sampled} {
		if len(prompt) < length+len(part) || !slices.Equal(prompt[length:length+len(part)], part) {
			return 0, false
		}

		length += len(part)
	}

	return length, true
}

// chain returns the conversation up to the node's prompt.
func (n *node) chain() Chain {
	if n.parent == nil {
		return Chain{Opening: n.more}
	}

	return n.parent.chain().With(Link{End: n.parent.end, More: n.more, Loose: n.loose})
}

// Plan is how to make a call.
type Plan struct {
	// Prompt has the ids to send; nil: the messages.
	Prompt []int32
	// Fallback is why the messages are sent although the conversation goes on; "": it begins.
	Fallback string

	digest   Digest
	messages []message
	loose    int

	// the prompt was compared with the template's
	audited bool
}

// Plan finds the conversation that a request continues, and its prompt.
func (f *Forest) Plan(ctx context.Context, render Render, digest Digest, messages []json.RawMessage) Plan {
	p := Plan{digest: digest}

	f.mu.Lock()
	p.messages = f.readAll(messages)
	at := f.find(digest, p.messages)
	t := f.template(digest)
	splicer, off := t.splicer, cmp.Or(f.off, t.off)
	p.audited = at.again && at.audited
	begun := f.begun
	f.mu.Unlock()

	rest := p.messages[at.used:]

	switch {
	case at.node == nil && !begun: // examples may have replies
	case at.node == nil && !slices.ContainsFunc(p.messages, func(m message) bool { return m.role == "assistant" }):
	case off != "":
		p.Fallback = off
	case at.node == nil:
		p.Fallback = NoMatch
	case slices.ContainsFunc(p.messages, func(m message) bool { return m.media }):
		// also where the text is repeated: the images may be others, and ids alone have none
		p.Fallback = Media
	case at.again:
		p.Prompt, p.loose = at.prompt(0), at.loose
	case slices.ContainsFunc(rest, func(m message) bool { return m.role == "assistant" }):
		p.Fallback = NoMatch
	case at.unfit != "":
		p.Fallback = at.unfit
	case f.RenderUserTurns && at.answers() && slices.ContainsFunc(rest, func(m message) bool { return m.role == "user" }):
		p.Fallback = UserTurn
	case len(rest) == 0 || slices.ContainsFunc(rest, func(m message) bool { return m.role != "user" && m.role != "tool" }):
		p.Fallback = Role
	default:
		err := f.continueAt(ctx, render, &p, at, &splicer, messages)
		if err != nil {
			p.Prompt, p.Fallback = nil, ReasonOf(err)
		}
	}

	return p
}

// Recorded is the plan of a call that was made.
func (f *Forest) Recorded(digest Digest, messages []json.RawMessage) Plan {
	f.mu.Lock()
	defer f.mu.Unlock()

	return Plan{digest: digest, messages: f.readAll(messages)}
}

// continueAt makes the prompt that continues a node.
func (f *Forest) continueAt(
	ctx context.Context, render Render, p *Plan, at place, splicer *Splicer, messages []json.RawMessage,
) error {
	link, err := splicer.Continue(ctx, render, at.end, at.reply.calls, messages[at.used:])
	if err != nil {
		return err
	}

	shape := shapeOf(at.node, p.messages[at.used:])

	f.mu.Lock()
	t := f.template(p.digest)
	t.splicer, t.loose, t.hasLoose = *splicer, max(t.loose, link.Loose), true
	turn := at.depth + 1
	due := !t.audited[shape] || turn%auditEvery == 0 || turn < auditEvery && turn&(turn-1) == 0
	f.mu.Unlock()

	if due {
		err := audit(ctx, render, at.chain().With(link), messages)

		f.mu.Lock()
		defer f.mu.Unlock()

		switch {
		case err == nil:
			f.template(p.digest).audited[shape] = true
		case ReasonOf(err) == UnlikeTemplate:
			f.template(p.digest).off = UnlikeTemplate
			return err
		default:
			return err
		}
	}

	p.Prompt = append(append(at.prompt(len(link.More)), at.sampled...), link.More...)
	p.loose, p.audited = link.Loose, due

	return nil
}

func audit(ctx context.Context, render Render, c Chain, messages []json.RawMessage) error {
	rendered, err := render(ctx, messages)
	if fault.Is(err, fault.Exhausted) {
		// the template's prompt is too long for the model; the call decides
		return nil
	}

	if err != nil {
		return err
	}

	return c.Audit(rendered)
}

// shapeOf describes what follows a reply, as far as templates treat it differently.
func shapeOf(at *node, rest []message) string {
	var shape strings.Builder
	if len(at.reply.calls) > 0 {
		shape.WriteString("calls ")
	}

	last := ""
	for _, m := range rest {
		if m.role != last {
			shape.WriteString(m.role + " ")
		}

		last = m.role
	}

	return shape.String()
}

// template returns what is known of a digest. f.mu is held.
func (f *Forest) template(d Digest) *template {
	t := f.templates[d]
	if t != nil {
		return t
	}

	if f.templates == nil || len(f.templates) >= maxTemplates {
		f.templates = map[Digest]*template{}
	}

	t = &template{audited: map[string]bool{}}
	f.templates[d] = t

	return t
}

// place is a node whose messages a request repeats.
type place struct {
	*node

	// the request's messages up to here: to the end of the node's prompt if the request is the node's own (again), else
	// to the end of its reply
	used  int
	again bool
}

// find returns the place deepest in the request, of equal ones the latest; without a node: none. f.mu is held.
func (f *Forest) find(d Digest, messages []message) (best place) {
	type level struct {
		nodes []*node
		used  int
	}

	for open := []level{{f.roots, 0}}; len(open) > 0; {
		at := open[len(open)-1]
		open = open[:len(open)-1]

		for _, n := range at.nodes {
			used := at.used + len(n.sent)
			if n.digest != d || used > len(messages) || !slices.EqualFunc(n.sent, messages[at.used:used], same) {
				continue
			}

			again := used == len(messages)
			if !again {
				if !messages[used].repeats(&n.reply) {
					continue
				}

				used++
				open = append(open, level{n.children, used})
			}

			if used >= best.used {
				best = place{n, used, again}
			}
		}
	}

	return best
}

func same(a, b message) bool {
	return a.role == b.role && a.textHash == b.textHash && a.thoughtHash == b.thoughtHash
}

// Reply is what was sampled.
type Reply struct {
	// Message is the reply as the agent gets it.
	Message json.RawMessage
	Prompt  []int32
	Sampled []int32
	End     End
	// Unfit is why the reply is not continued by ids; "": it may be.
	Unfit string
	// Turn is the number of the call.
	Turn int
	// Rendered: the endpoint made the prompt from the messages.
	Rendered bool
}

// Add adds the call of a plan. The prompt is the one that the endpoint used; it decides which node the call follows. A
// reply without ids is not continued.
func (f *Forest) Add(p Plan, r Reply) {
	reply, err := readMessage(r.Message)

	f.mu.Lock()
	defer f.mu.Unlock()

	if f.begun = true; err != nil || p.messages == nil || len(r.Prompt) == 0 || len(r.Sampled) == 0 {
		return
	}

	n := &node{
		digest: p.digest, sent: p.messages, loose: p.loose, sampled: slices.Clone(r.Sampled),
		reply: reply, end: r.End, unfit: r.Unfit, turn: r.Turn, audited: p.audited || r.Rendered,
	}

	whole := idSize*(len(r.Prompt)+len(r.Sampled)) + sizeOf(p.messages) + reply.size()
	if f.size += whole; f.size > maxSize {
		f.roots, f.size = nil, whole
	}

	at := f.find(p.digest, p.messages)
	if at.again {
		at = place{node: at.parent, used: at.used - len(at.sent)}
	}

	if at.node != nil {
		if begin, ok := at.begins(r.Prompt); ok && len(r.Prompt) > begin {
			f.size -= idSize*begin + sizeOf(p.messages[:at.used])
			n.parent, n.depth = at.node, at.depth+1
			n.sent, n.more = slices.Clone(p.messages[at.used:]), slices.Clone(r.Prompt[begin:])
			at.children = append(at.children, n)

			return
		}
	}

	n.more = slices.Clone(r.Prompt)
	f.roots = append(f.roots, n)
}

// readAll reads the messages of a request; nil: they are not messages, and the endpoint decides about them. f.mu is
// held.
func (f *Forest) readAll(messages []json.RawMessage) []message {
	all := make([]message, 0, len(messages))

	for _, raw := range messages {
		sum := sha256.Sum256(raw)

		m, ok := f.read[sum]
		if !ok {
			var err error
			if m, err = readMessage(raw); err != nil {
				return nil
			}

			if f.readSize += m.size(); f.read == nil || f.readSize > maxRead {
				f.read, f.readSize = map[Digest]message{}, m.size()
			}

			f.read[sum] = m
		}

		all = append(all, m)
	}

	return all
}

// Stop makes all further calls by messages, for a reason.
func (f *Forest) Stop(reason string) {
	f.mu.Lock()
	defer f.mu.Unlock()

	f.off = reason
}
