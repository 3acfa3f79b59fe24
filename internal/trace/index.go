package trace

import (
	"cmp"
	"slices"
	"time"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

// Entry is a record as its log remembers it: small, for there is one for each call of every live route.
type Entry struct {
	Turn      int
	CallID    string
	Kind      rollout.TurnKind
	Lineage   string
	Finish    string // as Head.FinishReason
	Whole     bool
	Delivered bool // the agent got it
	Usage     rollout.Usage
	Began     time.Time
	Ended     time.Time
	Broken    string // as in Head
	Tries     int
	Owed      time.Duration

	place           place
	request, prompt int   // bytes of these sections when they are whole
	adds            int64 // bytes of the prompt that are not its base's
	chain           int64 // see index.chain
}

// Bytes is what it takes to read the reply, with its prompt's ids written out, beside the reply as it is returned.
func (e Entry) Bytes() int64 { return e.place.size + 3*int64(e.prompt) + e.chain }

// index is what a log remembers.
type index struct {
	entries  []Entry        // in the order of the file
	disk     int64          // bytes of all frames
	restored int64          // bytes of all records when what they share with others is written out
	whole    map[string]int // call id → its latest whole entry
	turns    map[int]int    // turn → its entry
}

func (ix *index) put(h *storedHead, at place) {
	if ix.whole == nil {
		ix.whole, ix.turns = map[string]int{}, map[int]int{}
	}
	ix.turns[h.Turn] = len(ix.entries)
	if h.Whole() {
		ix.whole[h.CallID] = len(ix.entries)
	}
	request, prompt := h.wholeSizes()
	ix.disk += at.size
	ix.restored += int64(request + prompt + h.Reply + h.TokenIDs + h.Logprobs)
	ix.entries = append(ix.entries, Entry{
		adds: int64(h.Prompt), chain: ix.chain(h),
		Turn: h.Turn, CallID: h.CallID, Kind: h.Kind, Lineage: h.Lineage, Finish: h.FinishReason, Whole: h.Whole(), Usage: h.Usage,
		Began: h.Began, Ended: h.Began.Add(h.Latency), Broken: h.Broken, Tries: h.Tries, Owed: h.Owed, place: at, request: request, prompt: prompt,
	})
}

// chain is what Reply holds at once of the frames that it takes to restore the prompt's ids: one frame, and of those before it what each adds.
func (ix *index) chain(h *storedHead) int64 {
	if h.Base == nil || h.Base.Prompt == (share{}) {
		return 0
	}
	from, ok := ix.at(h.Base.place)
	if !ok {
		return 0
	}
	return max(from.place.size, from.adds+from.chain)
}

// at returns the entry whose frame stands there. It is looked for from the end: it is a recent one.
func (ix *index) at(p place) (Entry, bool) {
	for _, e := range slices.Backward(ix.entries) {
		if e.place.Segment == p.Segment && e.place.At == p.At {
			return e, true
		}
	}
	return Entry{}, false
}

// restores says whether the record that a frame was written as the difference to is there and has what they share.
func (ix *index) restores(h *storedHead, at place) bool {
	from, ok := ix.at(h.Base.place)
	return ok && from.place.before(at) && h.Base.Request.fits(from.request) && h.Base.Prompt.fits(from.prompt)
}

func (ix *index) deliver(turn int) {
	if i, ok := ix.turns[turn]; ok {
		ix.entries[i].Delivered = true
	}
}

// byTurn is a copy of the entries in the order the calls began.
func (ix *index) byTurn() []Entry {
	sorted := slices.Clone(ix.entries)
	slices.SortStableFunc(sorted, func(a, b Entry) int { return cmp.Compare(a.Turn, b.Turn) })
	return sorted
}

// find returns the whole record of a call id.
func (ix *index) find(callID string) (Entry, bool) {
	i, ok := ix.whole[callID]
	if !ok {
		return Entry{}, false
	}
	return ix.entries[i], true
}
