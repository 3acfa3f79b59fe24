package trace

import (
	"bytes"
	"fmt"
	"io"
)

// Export writes all turns as JSON lines of rollout.Turn, in the order the calls began. One record is in memory at a time.
func (l *Log) Export(w io.Writer) error {
	for _, e := range l.Entries() {
		r, err := l.Read(e)
		if err != nil {
			return err
		}
		line, err := marshal(TurnOf(r, e.Delivered))
		if err != nil {
			return err
		}
		// A sampled token may be half a character; readers of JSON lines insist on valid UTF-8.
		if _, err := w.Write(append(bytes.ToValidUTF8(line, []byte("\uFFFD")), '\n')); err != nil {
			return fmt.Errorf("export trace: %w", err)
		}
	}
	return nil
}
