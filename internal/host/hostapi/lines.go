package hostapi

import (
	"net/http"
	"sync"
	"time"
)

// lines writes a stream, and a blank line after each interval without a write.
type lines struct {
	mu   sync.Mutex
	w    http.ResponseWriter
	beat *time.Timer
	over bool
}

// newLines sends the status. failed is called when the reader is gone.
func newLines(w http.ResponseWriter, every time.Duration, failed func()) *lines {
	l := &lines{w: w}
	l.mu.Lock()
	defer l.mu.Unlock()
	// a reader that is gone fails the next write
	_ = http.NewResponseController(w).Flush()
	l.beat = time.AfterFunc(every, func() {
		if l.write([]byte("\n")) != nil {
			failed()
		}
	})

	return l
}

func (l *lines) write(p []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()

	if l.over {
		return nil
	}

	l.beat.Reset(alive)

	rc := http.NewResponseController(l.w)
	if err := rc.SetWriteDeadline(time.Now().Add(2 * alive)); err != nil {
		return err
	}

	if _, err := l.w.Write(p); err != nil {
		return err
	}

	return rc.Flush()
}

// stop ends the blank lines; no write follows it.
func (l *lines) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()

	l.over = true
	l.beat.Stop()
}
