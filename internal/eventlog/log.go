package eventlog

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"hash/fnv"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

const (
	// MaxEvent bounds the data of one event, in bytes.
	MaxEvent = 128 << 10
	// maxLog bounds a log with events of the agent, in bytes; events of the host may take maxReserve more.
	maxLog     = 16 << 20
	maxReserve = 2 << 20
)

// line is an event in the file.
type line struct {
	rollout.Event
	Key string `json:"key,omitempty"`
}

// Log is the log of one attempt. It is safe for concurrent use; a nil *Log keeps nothing.
type Log struct {
	path    string
	attempt int
	logger  *slog.Logger

	mu     sync.Mutex
	loaded bool

	// number of the latest event
	n int64

	// size of the file
	size int64

	// hashes of keys in the file
	keys  map[uint64]struct{}
	full  bool
	ended bool

	// an append failed; the next failure is not logged
	failed  bool
	changed chan struct{}
}

func newLog(path string, attempt int, logger *slog.Logger) *Log {
	return &Log{path: path, attempt: attempt, logger: logger, keys: map[uint64]struct{}{}, changed: make(chan struct{})}
}

// Append adds an event, unless the log has one with its key; "" is no key. Data is encoded as JSON.
// Failures are logged and not returned, since no work stops for its log.
func (l *Log) Append(kind rollout.EventKind, key string, data any) {
	if l == nil {
		return
	}

	raw, err := json.Marshal(data)

	l.mu.Lock()
	defer l.mu.Unlock()

	if err == nil {
		err = l.append(kind, key, raw)
	}

	if err != nil && !l.failed {
		l.failed = true
		l.logger.Warn("events are not logged", "error", err)
	}
}

// Stamp is the stamp of an event that happens now.
func (l *Log) Stamp() rollout.Stamp {
	if l == nil {
		return rollout.Stamp{}
	}

	return rollout.Stamp{Attempt: l.attempt, At: time.Now()}
}

func (l *Log) append(kind rollout.EventKind, key string, raw []byte) error {
	if err := l.load(); err != nil {
		return err
	}

	if _, there := l.keys[hash(key)]; l.ended || key != "" && there {
		return nil
	}

	if len(raw) > MaxEvent {
		raw = mustJSON(struct {
			rollout.Stamp
			Bytes int `json:"bytes"`
		}{rollout.Stamp{Attempt: l.attempt, At: time.Now()}, len(raw)})
	}

	if fromAgent(kind) && (l.full || l.size+int64(len(raw)) > maxLog) {
		if l.full {
			return nil
		}

		l.full = true
		kind, key, raw = rollout.EventTruncated, "truncated", mustJSON(rollout.Stamp{
			Attempt: l.attempt,
			At:      time.Now(),
		})
	}

	if l.size+int64(len(raw)) > maxLog+maxReserve {
		return nil
	}

	return l.write(line{rollout.Event{ID: rollout.EventID(l.attempt, l.n+1), Kind: kind, Data: raw}, key})
}

// fromAgent reports whether the number of events of the kind depends on the agent.
func fromAgent(kind rollout.EventKind) bool {
	switch kind {
	case rollout.EventText,
		rollout.EventThinking,
		rollout.EventToolStart,
		rollout.EventToolOutput,
		rollout.EventToolEnd,
		rollout.EventTurn:
		return true
	default:
		return false
	}
}

// write appends a line to the file and wakes the readers. l.mu is held. The file is opened for each event:
// a host has thousands of logs.
func (l *Log) write(e line) error {
	data, err := json.Marshal(e)
	if err != nil {
		return err
	}

	data = append(data, '\n')

	f, err := os.OpenFile(l.path, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	// over a partial line of a failed append
	_, err = f.WriteAt(data, l.size)
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}

	l.n++
	l.size += int64(len(data))
	l.keys[hash(e.Key)] = struct{}{}
	l.wake()

	return nil
}

// wake notifies the readers of a change. l.mu is held.
func (l *Log) wake() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// load reads the file of an earlier process once. The next event overwrites a partial last line.
func (l *Log) load() error {
	if l.loaded {
		return nil
	}

	f, err := os.Open(l.path)
	if errors.Is(err, fs.ErrNotExist) {
		l.loaded = true
		return nil
	}

	if err != nil {
		return err
	}

	defer f.Close()

	lines := bufio.NewReaderSize(f, 64<<10)
	for {
		text, err := lines.ReadBytes('\n')

		var e line
		if err == nil && json.Unmarshal(text, &e) == nil {
			_, l.n = rollout.EventPlace(e.ID)
			l.keys[hash(e.Key)] = struct{}{}
			l.full = l.full || e.Kind == rollout.EventTruncated
			l.size += int64(len(text))

			continue
		}

		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}

		l.loaded = true

		return nil
	}
}

// End ends the log; later events are dropped.
func (l *Log) End() {
	if l == nil {
		return
	}

	l.mu.Lock()
	defer l.mu.Unlock()

	if !l.ended {
		l.ended = true
		l.wake()
	}
}

// maxRead bounds what Read returns at once, in bytes, unless one event is longer.
const maxRead = 1 << 20

// Read returns whole lines from an offset in the file, the offset behind them, and a channel that is closed
// at the next change. No lines mean that the log has no more yet, or has ended. A removed file has no
// lines.
func (l *Log) Read(from int64) (lines []byte, next int64, changed <-chan struct{}, ended bool, err error) {
	l.mu.Lock()
	if err := l.load(); err != nil {
		l.mu.Unlock()
		return nil, from, nil, false, err
	}

	size, changed, ended := l.size, l.changed, l.ended
	l.mu.Unlock()

	n := min(size-from, maxRead)
	if n <= 0 {
		return nil, from, changed, ended, nil
	}

	f, err := os.Open(l.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, from, changed, ended, nil
	}

	if err != nil {
		return nil, from, changed, false, err
	}

	defer f.Close()

	lines = make([]byte, n)

	got, err := f.ReadAt(lines, from)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, from, changed, false, err
	}

	lines = lines[:bytes.LastIndexByte(lines[:got], '\n')+1]

	return lines, from + int64(len(lines)), changed, ended && from+int64(len(lines)) == size, nil
}

func hash(key string) uint64 {
	h := fnv.New64a()
	// never fails
	_, _ = h.Write([]byte(key))

	return h.Sum64()
}

// mustJSON encodes values of this package, which always encode.
func mustJSON(v any) []byte {
	raw, err := json.Marshal(v)
	if err != nil {
		return []byte("null")
	}

	return raw
}
