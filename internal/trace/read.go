package trace

import (
	"bytes"
	"slices"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// Entries returns the calls so far, in the order they began.
func (l *Log) Entries() []Entry {
	l.store.mu.Lock()
	defer l.store.mu.Unlock()

	return l.index.byTurn()
}

// EntriesFrom returns at most limit records after the first n, in the order of the file.
func (l *Log) EntriesFrom(n, limit int) []Entry {
	l.store.mu.Lock()
	defer l.store.mu.Unlock()

	all := l.index.entries
	n = min(n, len(all))

	return slices.Clone(all[n:min(n+limit, len(all))])
}

// Len returns the number of records.
func (l *Log) Len() int {
	l.store.mu.Lock()
	defer l.store.mu.Unlock()

	return len(l.index.entries)
}

// Size returns the bytes of the log's records on disk, and their bytes when restored.
func (l *Log) Size() (disk, restored int64) {
	l.store.mu.Lock()
	defer l.store.mu.Unlock()

	return l.index.disk, l.index.restored
}

// Find returns the complete record of a call id.
func (l *Log) Find(callID string) (Entry, bool) {
	l.store.mu.Lock()
	defer l.store.mu.Unlock()

	return l.index.find(callID)
}

// Read reads an entry's record. Rows of routed experts and of its sampling mask that are damaged are missing from it.
func (l *Log) Read(e Entry) (*Record, error) {
	l.store.files.RLock()
	defer l.store.files.RUnlock()

	w, err := l.readWithBases(e)
	if err != nil {
		return nil, fault.Wrap(fault.Internal, err, "read trace: turn %d", e.Turn)
	}

	r := w.record()
	if r.Experts != nil && r.Experts.Rows > 0 && !e.HasExperts() {
		r.Experts = &rollout.RoutedExperts{Missing: "their record is damaged"}
	}

	if r.SamplingMask != nil && r.SamplingMask.Rows > 0 && !e.HasExperts() {
		r.SamplingMask = &rollout.SamplingMask{Missing: "its record is damaged"}
	}

	return r, nil
}

// Reply reads the reply of an entry's record. It reads no request, and only one of the record's bases at a
// time: a chain of large ones would take many times the memory of the reply.
func (l *Log) Reply(e Entry) ([]byte, error) {
	l.store.files.RLock()
	defer l.store.files.RUnlock()

	w, err := l.store.read(e.place)
	if err == nil && w.head.Cut != nil {
		w.prompt, err = l.prompt(w)
	}

	if err != nil {
		return nil, fault.Wrap(fault.Internal, err, "read reply: turn %d", e.Turn)
	}

	r := &Record{Reply: w.reply, PromptTokenIDs: readIDs(w.prompt)}
	r.restore(w.head.Cut)

	return r.Reply, nil
}

// prompt restores the ids of a record's prompt. The files are held.
func (l *Log) prompt(w *written) ([]byte, error) {
	var parts []part
	for w.head.Base != nil && w.head.Base.Prompt != (share{}) {
		parts = append(parts, part{w.head.Base.Prompt, bytes.Clone(w.prompt)})

		from, err := l.base(w.head.Base)
		if err != nil {
			return nil, err
		}

		if w, err = l.store.read(from.place); err != nil {
			return nil, err
		}
	}

	ids := w.prompt
	for _, p := range slices.Backward(parts) {
		ids = p.shared.restore(ids, p.rest)
	}

	return ids, nil
}

// part is a section as written, without its frame.
type part struct {
	shared share
	rest   []byte
}

// base returns the entry of a record's base.
func (l *Log) base(d *diff) (Entry, error) {
	l.store.mu.Lock()
	defer l.store.mu.Unlock()

	from, ok := l.index.at(d.place)
	if !ok {
		return Entry{}, errDamaged
	}

	return from, nil
}

// readWithBases reads an entry and its bases. The files are held.
func (l *Log) readWithBases(e Entry) (*written, error) {
	w, err := l.store.read(e.place)
	if err != nil || w.head.Base == nil {
		return w, err
	}

	from, err := l.base(w.head.Base)
	if err != nil {
		return nil, err
	}

	base, err := l.readWithBases(from)
	if err != nil {
		return nil, err
	}

	w.request = w.head.Base.Request.restore(base.request, w.request)
	w.prompt = w.head.Base.Prompt.restore(base.prompt, w.prompt)

	return w, nil
}

// ExpertRows reads the rows of the routed experts and of the sampling mask of an entry's record; nil: it has none.
func (l *Log) ExpertRows(e Entry) ([]byte, error) {
	if e.experts.size == 0 {
		return nil, nil
	}

	l.store.files.RLock()
	defer l.store.files.RUnlock()

	_, rows, err := l.store.frame(e.experts)

	return rows, fault.Wrap(fault.Internal, err, "read routed experts: turn %d", e.Turn)
}

// HasExperts reports whether an entry's record has rows of routed experts, or of a sampling mask.
func (e Entry) HasExperts() bool { return e.experts.size > 0 }

// read reads one call's frame.
func (s *Store) read(p place) (*written, error) {
	head, sections, err := s.frame(p)
	if err != nil {
		return nil, err
	}

	return decode(head, sections)
}

// frame reads the parts of one frame.
func (s *Store) frame(p place) (head, sections []byte, err error) {
	s.mu.Lock()
	seg := s.segments[p.Segment]
	s.mu.Unlock()

	if seg == nil {
		return nil, nil, errDamaged
	}

	raw := make([]byte, p.size)
	if _, err := seg.file.ReadAt(raw, p.At); err != nil {
		return nil, nil, err
	}

	body, err := openFrame(raw)
	if err != nil {
		return nil, nil, err
	}

	_, head, sections, err = split(body)

	return head, sections, err
}
