package eventlog

import (
	"bytes"
	"context"
	"encoding/json"
	"io"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

// Stream calls write with the lines of events after an id, as they happen, until the log has ended, ctx
// ends or write fails.
func (l *Log) Stream(ctx context.Context, after int64, write func(lines []byte) error) error {
	for at := int64(0); ; {
		lines, next, changed, ended, err := l.Read(at)
		if err != nil {
			return err
		}

		if lines = behind(lines, after); len(lines) > 0 {
			if err := write(lines); err != nil {
				return err
			}
		}

		if ended {
			return nil
		}

		if next > at {
			at = next
			continue
		}

		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Reader reads the events that the log has now.
func (l *Log) Reader() io.Reader { return &reader{log: l} }

type reader struct {
	log  *Log
	at   int64
	rest []byte
}

// Read implements io.Reader.
func (r *reader) Read(p []byte) (n int, err error) {
	if len(r.rest) == 0 {
		if r.rest, r.at, _, _, err = r.log.Read(r.at); err != nil {
			return 0, err
		}

		if len(r.rest) == 0 {
			return 0, io.EOF
		}
	}

	n = copy(p, r.rest)
	r.rest = r.rest[n:]

	return n, nil
}

// behind returns the lines of events after an id.
func behind(lines []byte, after int64) []byte {
	for len(lines) > 0 {
		end := bytes.IndexByte(lines, '\n') + 1

		var e struct {
			ID int64 `json:"id"`
		}
		if end == 0 || json.Unmarshal(lines[:end], &e) == nil && e.ID > after {
			return lines
		}

		lines = lines[end:]
	}

	return nil
}

// Parse decodes whole lines and skips blank ones.
func Parse(lines []byte) ([]rollout.Event, error) {
	var all []rollout.Event

	for one := range bytes.Lines(lines) {
		if len(bytes.TrimSpace(one)) == 0 {
			continue
		}

		var e rollout.Event
		if err := json.Unmarshal(one, &e); err != nil {
			return all, err
		}

		all = append(all, e)
	}

	return all, nil
}
