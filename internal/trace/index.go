package trace

import (
	"cmp"
	"slices"
	"time"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

// Entry is the index entry of a record. It is small, since there is one for each call of every live route.
type Entry struct {
	Turn    int
	CallID  string
	Kind    rollout.TurnKind
	Lineage string

	// as Head.FinishReason
	Finish string
	Whole  bool

	// the agent got it
	Delivered bool
	Usage     rollout.Usage
	Began     time.Time
	Ended     time.Time

	// as in Head
	Broken string
	Tries  int
	Owed   time.Duration

	place place

	// bytes of these sections when restored
	request, prompt int

	// bytes of the prompt that the base lacks
	adds int64

	// see index.chain
	chain int64

	// place of the rows of its routed experts and its sampling mask; a size of 0: it has none
	experts place
}

// Bytes returns the memory for reading the reply with its prompt's ids, besides the returned reply.
func (e Entry) Bytes() int64 { return e.place.size + 3*int64(e.prompt) + e.chain }

// index is the index of a log.
type index struct {
	// in the order of the file
	entries []Entry

	// bytes of all frames
	disk int64

	// bytes of all records when restored
	restored int64

	// call id → its latest complete entry
	complete map[string]int

	// turn → its entry
	turns map[int]int

	// turn → the latest rows of its routed experts and its sampling mask
	experts map[int]place
}

// putExperts adds the rows of a record that follows.
func (ix *index) putExperts(turn int, at place) {
	if ix.experts == nil {
		ix.experts = map[int]place{}
	}

	ix.experts[turn] = at
	ix.disk += at.size
	ix.restored += at.size
}

// expertsOf returns the place of a record's rows.
func (ix *index) expertsOf(h *storedHead) place {
	if (h.Experts == nil || h.Experts.Rows == 0) && (h.SamplingMask == nil || h.SamplingMask.Rows == 0) {
		return place{}
	}

	return ix.experts[h.Turn]
}

func (ix *index) put(h *storedHead, at place) {
	if ix.complete == nil {
		ix.complete, ix.turns = map[string]int{}, map[int]int{}
	}

	ix.turns[h.Turn] = len(ix.entries)
	if h.Complete() {
		ix.complete[h.CallID] = len(ix.entries)
	}

	request, prompt := h.wholeSizes()
	ix.disk += at.size
	ix.restored += int64(request + prompt + h.Reply + h.TokenIDs + h.Logprobs)
	ix.entries = append(ix.entries, Entry{
		adds:    int64(h.Prompt),
		chain:   ix.chain(h),
		Turn:    h.Turn,
		CallID:  h.CallID,
		Kind:    h.Kind,
		Lineage: h.Lineage,
		Finish:  h.FinishReason,
		Whole:   h.Complete(),
		Usage:   h.Usage,
		Began:   h.Began,
		Ended:   h.Began.Add(h.Latency),
		Broken:  h.Broken,
		Tries:   h.Tries,
		Owed:    h.Owed,
		place:   at,
		request: request,
		prompt:  prompt,
		experts: ix.expertsOf(h),
	})
}

// chain returns the bytes of frames that Reply holds at once to restore the prompt's ids: one frame, and of
// those before it the part that each adds.
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

// at returns the entry of the frame at that place. It searches from the end, since the entry is recent.
func (ix *index) at(p place) (Entry, bool) {
	for _, e := range slices.Backward(ix.entries) {
		if e.place.Segment == p.Segment && e.place.At == p.At {
			return e, true
		}
	}

	return Entry{}, false
}

// restores reports whether the base of a frame exists and has the shared part.
func (ix *index) restores(h *storedHead, at place) bool {
	from, ok := ix.at(h.Base.place)
	return ok && from.place.before(at) && h.Base.Request.fits(from.request) && h.Base.Prompt.fits(from.prompt)
}

func (ix *index) deliver(turn int) {
	if i, ok := ix.turns[turn]; ok {
		ix.entries[i].Delivered = true
	}
}

// byTurn returns a copy of the entries in the order the calls began.
func (ix *index) byTurn() []Entry {
	sorted := slices.Clone(ix.entries)
	slices.SortStableFunc(sorted, func(a, b Entry) int { return cmp.Compare(a.Turn, b.Turn) })

	return sorted
}

// find returns the complete record of a call id.
func (ix *index) find(callID string) (Entry, bool) {
	i, ok := ix.complete[callID]
	if !ok {
		return Entry{}, false
	}

	return ix.entries[i], true
}
