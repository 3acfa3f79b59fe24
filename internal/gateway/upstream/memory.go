package upstream

import (
	"errors"
	"net/http"
	"time"

	"github.com/rolloutd/rolloutd/internal/gateway/dialect/reply"
	"github.com/rolloutd/rolloutd/internal/intake"
)

// What a reply takes in memory, in multiples of its bytes.
const (
	// copies: the reply, and what of it the agent sees.
	copies = 2
	// liveCopies: also what of it the agent has seen already.
	liveCopies = 4
	// decodeWeight is what ids and log probabilities come to when they are written in as few bytes as can be.
	decodeWeight = 6
	// maxDecode is what they come to at most in bytes: the bounds of a reply are in package reply.
	maxDecode = 192 << 20
	// askWeight is that of a reply beside the model calls: its bytes, the decoder's copy and its ids.
	askWeight = 4
)

// errNoMemory is why a reply was given up that the memory for replies has no room for.
var errNoMemory = errors.New("no memory for the reply")

// demand is what a reply may take in bytes with a buffer of that capacity, while so many bytes of it are to be decoded.
func demand(s *reply.Stream, capacity, undecoded int, live bool) int64 {
	times := copies
	if live {
		times = liveCopies
	}
	return int64(times)*int64(capacity) + int64(s.Decoded()) + min(decodeWeight*int64(undecoded), maxDecode)
}

// holds has a result hold what its reply may take, and says whether there was room; see demand.
func (t *target) holds(out *Result, s *reply.Stream, capacity, undecoded int) bool {
	return out.Held.Hold(demand(s, capacity, undecoded, t.live != nil)) == nil
}

// giveUpReply is the result of a reply that the memory has no room for. Nothing of it is kept: it would take what others have no room for.
func (u *Client) giveUpReply(res *http.Response, firstByte time.Time) *Result {
	u.report.starved.Inc()
	return &Result{Status: res.StatusCode, FirstByte: firstByte, Problem: noMemory()}
}

func noMemory() *Problem {
	return &Problem{
		Class: Retry, Cause: errNoMemory,
		Text: "the gateway has no memory for the reply: replies under way hold all that they may (gateway.reply_memory_mib)",
	}
}

// starved says whether a call ran out of time for lack of memory: that of its latest tries was spent on replies that were given up.
func (f *retryState) starved(res *Result) bool {
	p := res.Problem
	if p == nil || p.Class != Retry {
		return false
	}
	before := f.starve
	f.starve = errors.Is(p.Cause, errNoMemory)
	return before && f.left <= 0
}

// clients is the name under which all endpoints whose URLs clients gave share the memory: one client may name as many as it likes.
const clients = "base URLs of clients"

// Share is the memory for replies as an endpoint of that name has it. Replies of one endpoint hold at most half of the memory, and so do
// all replies of endpoints that clients gave by their URL. A route is a member of its endpoint's share.
func (u *Client) Share(name string, clientGiven bool) intake.Share {
	if clientGiven {
		name = clients
	}
	return u.memory.Of(name)
}
