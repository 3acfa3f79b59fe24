package trajectory

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/rolloutd/rolloutd/internal/rawjson"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// Check copies a trace, JSON lines of rollout.Turn, and clears "train" of the turns whose replies are not in the transcript. All other
// lines keep their bytes. One line is in memory at a time.
func Check(w io.Writer, r io.Reader, said *TranscriptReplies) error {
	lines := bufio.NewReaderSize(r, 64<<10)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 && !said.Empty() {
			checked, bad := checkLine(line, said)
			if bad != nil {
				return fmt.Errorf("trace: %w", bad)
			}
			line = checked
		}
		if _, err := w.Write(line); err != nil {
			return err
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func checkLine(line []byte, said *TranscriptReplies) ([]byte, error) {
	o, err := rawjson.ParseObject(line)
	if err != nil {
		return nil, err
	}
	if train, _ := o.Get("train"); !bytes.Equal(train, []byte("true")) {
		return line, nil
	}
	var t rollout.Turn
	for key, into := range map[string]any{"response": &t.Response, "flaws": &t.Flaws, "loss_mask": &t.LossMask} {
		if raw, ok := o.Get(key); ok {
			if err := json.Unmarshal(raw, into); err != nil {
				return nil, err
			}
		}
	}
	if said.Knows(&t) {
		return line, nil
	}
	flaws, err := json.Marshal(append(t.Flaws, unknownFlaw))
	if err != nil {
		return nil, err
	}
	o.Set("train", []byte("false"))
	o.Set("flaws", flaws)
	if len(t.LossMask) > 0 {
		clear(t.LossMask)
		mask, err := t.LossMask.MarshalJSON()
		if err != nil {
			return nil, err
		}
		o.Set("loss_mask", mask)
	}
	return o.Bytes(), nil
}
