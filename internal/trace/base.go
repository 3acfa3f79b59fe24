package trace

import (
	"hash/maphash"
	"slices"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

const (
	// blockSize is the unit in which sections are compared, in bytes; a multiple of an id's size.
	blockSize = 2 << 10
	// tailBlocks bounds the compared end of requests: after the messages come the tools, which stay the same.
	tailBlocks = 64
	// maxDepth bounds the number of records that are read to restore one.
	maxDepth = 16
	// maxBases bounds the bases of a log: an agent chooses the names of its conversations.
	maxBases = 32
)

// conversation identifies calls that continue each other.
type conversation struct {
	kind    rollout.TurnKind
	lineage string
}

// base describes a conversation's latest complete record, so that the next one is written as the difference
// to it: agents send their whole past with each call. It holds hashes of blocks, since the bytes of a
// thousand rollouts are too many to keep.
type base struct {
	place
	depth           int
	request, prompt print

	// nil: written in full
	from *diff
}

// diff describes a record as the difference to an earlier one.
type diff struct {
	place
	Depth   int   `json:"depth"`
	Request share `json:"request"`
	Prompt  share `json:"prompt"`
}

// share is the part that a section has in common with its base, in bytes from the start and from the end.
type share struct {
	Prefix int `json:"prefix,omitempty"`
	Suffix int `json:"suffix,omitempty"`
}

// rest returns the part that is not shared.
func (s share) rest(section []byte) []byte { return section[s.Prefix : len(section)-s.Suffix] }

// fits reports whether a section of that size can have such a share.
func (s share) fits(size int) bool {
	return s.Prefix >= 0 && s.Suffix >= 0 && s.Prefix <= size && s.Suffix <= size-s.Prefix
}

// restore assembles the section.
func (s share) restore(base, rest []byte) []byte {
	return slices.Concat(base[:s.Prefix], rest, base[len(base)-s.Suffix:])
}

// nextBase prepares the base of a record's successor, and finds the best base of the record.
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

	d := &diff{
		place:   before.place,
		Depth:   before.depth + 1,
		Request: next.request.common(before.request),
		Prompt:  next.prompt.common(before.prompt),
	}
	if d.Request != (share{}) || d.Prompt != (share{}) {
		next.from, next.depth = d, d.Depth
	}

	return next
}

// remember makes a written record the base of the next. A broken one has no prompt to continue. The store's
// lock is held.
func (l *Log) remember(r *Record, next *base, at place) {
	if !r.Complete() {
		return
	}

	if l.bases == nil || len(l.bases) >= maxBases {
		l.bases = map[conversation]*base{}
	}

	next.place, next.from = at, nil
	l.bases[conversation{r.Kind, r.Lineage}] = next
}

// print is the fingerprint of a section: its length, and a hash of each of its blocks, counted from the
// start and for the last ones also from the end.
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

// common returns the part that a section shares with an earlier one.
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
