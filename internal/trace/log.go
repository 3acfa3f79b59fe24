package trace

import "github.com/rolloutd/rolloutd/internal/fault"

// usualNote is the size of the head of most notes, in bytes.
const usualNote = 128

// Log is one route's records in a Store. It is safe for concurrent use. The store's lock guards its fields.
type Log struct {
	store   *Store
	key     string
	index   index
	bases   map[conversation]*base
	dropped bool

	// records that cannot be restored
	damaged int
}

// Append writes the record and returns when it is on disk. It first checks the record's ids and logprobs;
// see Record.Check.
func (l *Log) Append(r *Record) error {
	r.Check()
	next := l.nextBase(r)

	h, f, err := encode(l.key, r, next)
	if err != nil {
		return fault.Wrap(fault.Internal, err, "trace")
	}

	if err := l.appendExperts(r); err != nil {
		return err
	}

	n, err := l.store.write(l, f, func(at place) {
		l.index.put(h, at)
		l.remember(r, next, at)
	})
	if err != nil {
		return err
	}

	if err := l.store.commit.wait(n); err != nil {
		l.disown(r.CallID)
		return err
	}

	return nil
}

// appendExperts writes the rows of a record before it, in a frame of their own: what reads the record's text and ids
// need not read them. The sync of the record is theirs too.
func (l *Log) appendExperts(r *Record) error {
	if len(r.ExpertRows) == 0 {
		return nil
	}

	f := newFrame(note{l.key, r.Turn}.append(startFrame(typeExperts, usualNote)), r.ExpertRows)
	_, err := l.store.write(l, f, func(at place) { l.index.putExperts(r.Turn, at) })

	return err
}

// disown hides a record that may not be on disk.
func (l *Log) disown(callID string) {
	l.store.mu.Lock()
	defer l.store.mu.Unlock()

	delete(l.index.complete, callID)
}

// Delivered records that the agent got the reply of a turn. It does not wait for the disk: losing the
// record in a power cut is safe.
func (l *Log) Delivered(turn int) error {
	f := newFrame(note{l.key, turn}.append(startFrame(typeDelivered, usualNote)))
	_, err := l.store.write(l, f, func(place) { l.index.deliver(turn) })

	return err
}

// Drop removes the log and its records.
func (l *Log) Drop() error {
	return fault.Wrap(fault.Internal, l.store.forgetLogs(l.key), "drop trace")
}
