package trace

import (
	"hash/maphash"
	"slices"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

const (
	// blockSize is the step in which sections are compared, in bytes; a multiple of an id's.
	blockSize = 2 << 10
	// tailBlocks bounds how far from the end requests are compared: behind the messages stand the tools, which stay the same.
	tailBlocks = 64
	// maxDepth bounds how many records it takes to restore one.
	maxDepth = 16
	// maxBases bounds what is remembered of a log: an agent names its conversations as it likes.
	maxBases = 32
)

// conversation is what follows one upon the other.
type conversation struct {
	kind    rollout.TurnKind
	lineage string
}

// base is what is remembered of a conversation's latest whole record, so that the next is written as the difference to it:
// agents send their whole past with each call. It holds hashes of blocks and not the bytes: those of a thousand rollouts are too many to
// keep.
type base struct {
	place
	depth           int
	request, prompt print
	from            *diff // nil: written in full
}

// diff says how a record was written as the difference to an earlier one.
type diff struct {
	place
	Depth   int   `json:"depth"`
	Request share `json:"request"`
	Prompt  share `json:"prompt"`
}

// share is what a section has in common with the same section of its base, in bytes from the start and from the end.
type share struct {
	Prefix int `json:"prefix,omitempty"`
	Suffix int `json:"suffix,omitempty"`
}

// rest is what is not shared.
func (s share) rest(section []byte) []byte { return section[s.Prefix : len(section)-s.Suffix] }

// fits says whether a section of so many bytes has such a share.
func (s share) fits(size int) bool {
	return s.Prefix >= 0 && s.Suffix >= 0 && s.Prefix <= size && s.Suffix <= size-s.Prefix
}

// restore puts the section together again.
func (s share) restore(base, rest []byte) []byte {
	return slices.Concat(base[:s.Prefix], rest, base[len(base)-s.Suffix:])
}

// nextBase prepares what will be remembered of a record, and finds what it is best written as the difference to.
func (l *Log) nextBase(r *Record) *base {
	next := &base{
		request: newPrint(l.store.seed, r.Request).withTail(l.store.seed, r.Request),
		prompt:  newPrint(l.store.seed, idBytes(r.PromptTokenIDs)),
	}
	l.store.mu.Lock()
	before := l.bases[conversation{r.Kind, r.Lineage}]
	l.store.mu.Unlock()
	if before == nil || before.depth+1 >= maxDepth {
		return next
	}
	d := &diff{place: before.place, Depth: before.depth + 1, Request: next.request.common(before.request), Prompt: next.prompt.common(before.prompt)}
	if d.Request != (share{}) || d.Prompt != (share{}) {
		next.from, next.depth = d, d.Depth
	}
	return next
}

// remember makes a record that was written the base of the next. A broken one has no prompt to go on from. The store's lock is held.
func (l *Log) remember(r *Record, next *base, at place) {
	if !r.Whole() {
		return
	}
	if l.bases == nil || len(l.bases) >= maxBases {
		l.bases = map[conversation]*base{}
	}
	next.place, next.from = at, nil
	l.bases[conversation{r.Kind, r.Lineage}] = next
}

// print is what is remembered of a section: its length, and a hash of each of its blocks, counted from the start and, where it
// may end as an earlier one does, from the end for the last ones.
type print struct {
	size       int
	head, tail []uint64
}

func newPrint(seed maphash.Seed, b []byte) print {
	p := print{size: len(b), head: make([]uint64, 0, len(b)/blockSize)}
	for at := 0; at+blockSize <= len(b); at += blockSize {
		p.head = append(p.head, maphash.Bytes(seed, b[at:at+blockSize]))
	}
	return p
}

func (p print) withTail(seed maphash.Seed, b []byte) print {
	for end := len(b); end >= blockSize && len(p.tail) < tailBlocks; end -= blockSize {
		p.tail = append(p.tail, maphash.Bytes(seed, b[end-blockSize:end]))
	}
	return p
}

// common is what a section shares with an earlier one.
func (p print) common(before print) share {
	s := share{Prefix: blockSize * alike(p.head, before.head)}
	room := (min(p.size, before.size) - s.Prefix) / blockSize
	s.Suffix = blockSize * min(alike(p.tail, before.tail), room)
	return s
}

func alike(a, b []uint64) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}
