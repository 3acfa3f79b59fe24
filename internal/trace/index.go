package trace

import (
	"cmp"
	"slices"
	"time"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

// Entry is a record as the log remembers it: small, for there is one for each call of every live route.
type Entry struct {
	Turn      int
	CallID    string
	Kind      rollout.TurnKind
	Whole     bool
	Delivered bool // the agent got it
	Usage     rollout.Usage
	Began     time.Time
	Ended     time.Time

	at, size int64 // of the body in the file
}

// index is what a log remembers. The log's lock guards it.
type index struct {
	entries []Entry        // in the order of the file
	whole   map[string]int // call id → its latest whole entry
	turns   map[int]int    // turn → its entry
}

func (ix *index) put(h *Head, at, size int64) {
	if ix.whole == nil {
		ix.whole, ix.turns = map[string]int{}, map[int]int{}
	}
	ix.turns[h.Turn] = len(ix.entries)
	if h.Whole() {
		ix.whole[h.CallID] = len(ix.entries)
	}
	ix.entries = append(ix.entries, Entry{
		Turn: h.Turn, CallID: h.CallID, Kind: h.Kind, Whole: h.Whole(), Usage: h.Usage,
		Began: h.Began, Ended: h.Began.Add(h.Latency), at: at + frameHead, size: size,
	})
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
