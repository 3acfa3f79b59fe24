package trace

import (
	"hash/crc32"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// Entries are the calls so far, in the order they began.
func (l *Log) Entries() []Entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.index.byTurn()
}

// Find returns the whole record of a call id.
func (l *Log) Find(callID string) (Entry, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.index.find(callID)
}

// Damaged counts frames that could not be read though what follows them could: a failing disk, not a crash.
func (l *Log) Damaged() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.damaged
}

// Read reads an entry's record.
func (l *Log) Read(e Entry) (*Record, error) {
	body := make([]byte, frameHead+e.size)
	if _, err := l.file.ReadAt(body, e.at-frameHead); err != nil {
		return nil, fault.Wrap(fault.Internal, err, "read trace")
	}
	_, sum, ok := bodyLength(body, e.size)
	body = body[frameHead:]
	if !ok || crc32.Checksum(body, castagnoli()) != sum {
		return nil, fault.Wrap(fault.Internal, errDamaged, "read trace: turn %d", e.Turn)
	}
	_, head, sections, err := split(body)
	if err != nil {
		return nil, fault.Wrap(fault.Internal, err, "read trace")
	}
	return decode(head, sections)
}
