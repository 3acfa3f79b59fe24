package trace

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"

	"github.com/rolloutd/rolloutd/internal/rawjson"
)

// written is a record as read: its sections alias the frame, or are restored.
type written struct {
	head                                  *storedHead
	request, reply, prompt, ids, logprobs []byte
}

// decodeHead reads a call's head and checks it against its sections.
func decodeHead(head, sections []byte) (*storedHead, error) {
	h := &storedHead{}
	if err := json.Unmarshal(head, h); err != nil {
		return nil, fmt.Errorf("decode record: %w", err)
	}

	for _, n := range []int{h.Request, h.Reply, h.Prompt, h.TokenIDs, h.Logprobs} {
		if n < 0 || n > len(sections) {
			return nil, errDamaged
		}
	}

	if h.size() != len(sections) || h.Cut != nil && (h.Cut.At < 0 || h.Cut.At > h.Reply) {
		return nil, errDamaged
	}

	return h, nil
}

// decode reads a call's body. The sections alias it.
func decode(head, sections []byte) (*written, error) {
	h, err := decodeHead(head, sections)
	if err != nil {
		return nil, err
	}

	w := &written{head: h}
	w.request, sections = cutSection(sections, h.Request)
	w.reply, sections = cutSection(sections, h.Reply)
	w.prompt, sections = cutSection(sections, h.Prompt)
	w.ids, sections = cutSection(sections, h.TokenIDs)
	w.logprobs, _ = cutSection(sections, h.Logprobs)

	return w, nil
}

func cutSection(b []byte, n int) (section, rest []byte) { return b[:n:n], b[n:] }

// record returns the record as it was appended.
func (w *written) record() *Record {
	r := &Record{
		Head:           w.head.Head,
		Request:        w.request,
		Reply:          w.reply,
		PromptTokenIDs: readIDs(w.prompt),
		TokenIDs:       readIDs(w.ids),
	}

	r.Logprobs = make([]float64, len(w.logprobs)/8)
	for i := range r.Logprobs {
		r.Logprobs[i] = math.Float64frombits(binary.LittleEndian.Uint64(w.logprobs[8*i:]))
	}

	r.restore(w.head.Cut)

	return r
}

// restore inserts the prompt's ids at their place in the reply.
func (r *Record) restore(c *cut) {
	if c == nil {
		return
	}

	whole := make([]byte, 0, len(r.Reply)+11*len(r.PromptTokenIDs)+2)
	whole = rawjson.AppendIDs(append(whole, r.Reply[:c.At]...), r.PromptTokenIDs, c.Spaced)
	r.PromptAt = rawjson.Span{Start: c.At, End: len(whole), Spaced: c.Spaced}
	r.Reply = append(whole, r.Reply[c.At:]...)
}

func readIDs(b []byte) []int32 {
	ids := make([]int32, len(b)/4)
	for i := range ids {
		ids[i] = int32(binary.LittleEndian.Uint32(b[4*i:]))
	}

	return ids
}
