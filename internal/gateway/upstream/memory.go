package upstream

import (
	"errors"
	"net/http"
	"time"

	"github.com/rolloutd/rolloutd/internal/gateway/dialect/reply"
	"github.com/rolloutd/rolloutd/internal/input/membudget"
)

// Memory of a reply, in multiples of its bytes.
const (
	// copies: the reply and the part that the agent sees.
	copies = 2
	// liveCopies: also the part that the agent has already seen.
	liveCopies = 4
	// decodeWeight is the memory of decoded ids and log probabilities, in multiples of their shortest encoding.
	decodeWeight = 6
	// maxDecode bounds that memory, in bytes: package reply bounds a reply.
	maxDecode = 192 << 20
	// askWeight is that of a reply that is not to a model call: its bytes, the decoder's copy and its ids.
	askWeight = 4
)

// errNoMemory is the cause of giving up a reply that exceeds the memory for replies.
var errNoMemory = errors.New("no memory for the reply")

// demand returns the memory that a reply may take, in bytes, with a buffer of that capacity and that many
// bytes still to be decoded.
func demand(s *reply.Stream, capacity, undecoded int, live bool) int64 {
	times := copies
	if live {
		times = liveCopies
	}

	return int64(times)*int64(capacity) + int64(s.Decoded()) + min(decodeWeight*int64(undecoded), maxDecode)
}

// holds reserves the memory of a result's reply, see demand, and reports whether it was available.
func (t *target) holds(out *Result, s *reply.Stream, capacity, undecoded int) bool {
	return out.Memory.Resize(demand(s, capacity, undecoded, t.live != nil)) == nil
}

// giveUpReply returns the result for a reply without memory. It keeps nothing of the reply, to leave the
// memory to others.
func (u *Client) giveUpReply(res *http.Response, firstByte time.Time) *Result {
	u.report.starved.Inc()
	return &Result{Status: res.StatusCode, FirstByte: firstByte, Problem: noMemory()}
}

func noMemory() *Problem {
	return &Problem{
		Class: Retry,
		Cause: errNoMemory,
		Text:  "the gateway has no memory for the reply: replies in flight use all the memory they may (gateway.reply_memory_mib)",
	}
}

// starved reports whether a call ran out of time for lack of memory: its latest tries were spent on replies
// that were given up.
func (r *retryState) starved(res *Result) bool {
	p := res.Problem
	if p == nil || p.Class != Retry {
		return false
	}

	before := r.noMemory
	r.noMemory = errors.Is(p.Cause, errNoMemory)

	return before && r.remaining <= 0
}

// clients is the name under which all endpoints given by clients share memory, since a client may name any
// number of them.
const clients = "base URLs of clients"

// Share returns the memory for replies of an endpoint. The replies of one endpoint use at most half of the
// memory, and so do all replies of endpoints given by clients. A route is a member of its endpoint's share.
func (u *Client) Share(name string, clientGiven bool) membudget.Share {
	if clientGiven {
		name = clients
	}

	return u.memory.Of(name)
}
