package transcript

import (
	"hash/maphash"
	"slices"
	"strings"

	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/trajectory/formats"
)

// Conversation reads turns in the order in which their calls began. It knows the messages of the latest turn of each
// lineage. It is not safe for concurrent use.
type Conversation struct {
	seed maphash.Seed

	// by kind and lineage
	latest map[string]latestTurn
}

// latestTurn has digests of a turn's messages and of the parts of its reply.
type latestTurn struct {
	messages []uint64
	reply    []uint64
}

// NewConversation makes a Conversation without turns.
func NewConversation() *Conversation {
	return &Conversation{seed: maphash.MakeSeed(), latest: map[string]latestTurn{}}
}

// Turn returns the next turn with all its parts, whole: see Turn.Bound.
func (c *Conversation) Turn(t *rollout.Turn) Turn {
	before, fresh := c.follow(t)

	turn := newTurn(t)
	turn.MessagesBefore = before
	turn.Parts = slices.Concat([]Part{}, fresh, replyParts(t))

	return turn
}

// follow returns the parts of a request's messages that the latest turn of its lineage did not have, and the number of
// messages that it had. The reply of that turn is not repeated.
func (c *Conversation) follow(t *rollout.Turn) (before int, fresh []Part) {
	messages := formats.RequestOf(t).Messages

	digests := make([]uint64, len(messages))
	for i, m := range messages {
		digests[i] = maphash.Bytes(c.seed, m)
	}

	lineage := string(t.Kind) + " " + t.Lineage
	latest := c.latest[lineage]

	for before < min(len(digests), len(latest.messages)) && digests[before] == latest.messages[before] {
		before++
	}

	// The request continues the latest turn: its first new messages are the reply of that turn.
	reply := latest.reply
	if before < len(latest.messages) {
		reply = nil
	}

	for _, m := range messages[before:] {
		parts := partsOf(m)
		if rest, repeated := c.repeats(parts, reply); repeated {
			reply = rest
			continue
		}

		reply = nil

		fresh = append(fresh, parts...)
	}

	c.latest[lineage] = latestTurn{digests, c.digestsOf(replyParts(t))}

	return before, fresh
}

// repeats reports whether the parts of a message are the next ones of a reply, and returns the rest of the reply.
func (c *Conversation) repeats(parts []Part, reply []uint64) (rest []uint64, repeated bool) {
	for _, p := range parts {
		if p.Kind == User || p.Kind == System || p.Kind == ToolResult {
			return nil, false
		}
	}

	own := c.digestsOf(parts)
	if len(reply) == 0 || len(own) > len(reply) {
		return nil, false
	}

	for i, digest := range own {
		if digest != reply[i] {
			return nil, false
		}
	}

	return reply[len(own):], true
}

// digestsOf returns a digest of each text and tool call. Agents leave thoughts and blank texts out of the
// conversation, trim texts, and write the arguments of a call in another form of JSON: these make no difference.
func (c *Conversation) digestsOf(parts []Part) (digests []uint64) {
	for _, p := range parts {
		content := strings.TrimSpace(p.Text)

		switch {
		case p.Kind == ToolCall:
			digests = append(digests, maphash.String(c.seed, "call "+p.Name))
		case (p.Kind == Text || p.Kind == Assistant) && content != "":
			digests = append(digests, maphash.String(c.seed, "text "+content))
		}
	}

	return digests
}
