package trace

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"unsafe"

	"github.com/rolloutd/rolloutd/internal/chat"
)

// storedHead is a call's head on disk: Head and the lengths of the sections, in their order.
type storedHead struct {
	Head
	Request  int `json:"n_request"`   // bytes
	Reply    int `json:"n_reply"`     // bytes
	Prompt   int `json:"n_prompt"`    // ids
	TokenIDs int `json:"n_token_ids"` // ids
	Logprobs int `json:"n_logprobs"`  // numbers
	// Cut is where the prompt's ids were cut out of the reply.
	Cut *cut `json:"cut,omitempty"`
}

type cut struct {
	At     int  `json:"at"`
	Spaced bool `json:"spaced,omitempty"`
}

func (h *storedHead) size() int {
	return h.Request + h.Reply + 4*h.Prompt + 4*h.TokenIDs + 8*h.Logprobs
}

func encode(r *Record) (frame, error) {
	h := storedHead{
		Head: r.Head, Request: len(r.Request), Reply: len(r.Reply),
		Prompt: len(r.PromptTokenIDs), TokenIDs: len(r.TokenIDs), Logprobs: len(r.Logprobs),
	}
	front, back := r.Reply, []byte(nil)
	if at := r.PromptAt; at.End > 0 {
		front, back = r.Reply[:at.Start], r.Reply[at.End:]
		h.Reply, h.Cut = len(front)+len(back), &cut{at.Start, at.Spaced}
	}
	head, err := json.Marshal(&h)
	if err != nil {
		return nil, fmt.Errorf("encode record: %w", err)
	}
	if h.size() > maxBody-len(head)-bodyHead {
		return nil, fmt.Errorf("encode record: %d bytes are too many", h.size())
	}
	return newFrame(typeCall, head, r.Request, front, back, idBytes(r.PromptTokenIDs), idBytes(r.TokenIDs), floatBytes(r.Logprobs)), nil
}

// idBytes is ids as they are written; where memory has the same order, the memory itself.
func idBytes(ids []int32) []byte {
	if len(ids) > 0 && littleEndian() {
		return unsafe.Slice((*byte)(unsafe.Pointer(&ids[0])), 4*len(ids))
	}
	b := make([]byte, 0, 4*len(ids))
	for _, id := range ids {
		b = binary.LittleEndian.AppendUint32(b, uint32(id))
	}
	return b
}

func floatBytes(list []float64) []byte {
	if len(list) > 0 && littleEndian() {
		return unsafe.Slice((*byte)(unsafe.Pointer(&list[0])), 8*len(list))
	}
	b := make([]byte, 0, 8*len(list))
	for _, f := range list {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(f))
	}
	return b
}

func littleEndian() bool { return binary.NativeEndian.Uint16([]byte{1, 0}) == 1 }

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
func decode(head, sections []byte) (*Record, error) {
	h, err := decodeHead(head, sections)
	if err != nil {
		return nil, err
	}
	r := &Record{Head: h.Head, Request: sections[:h.Request:h.Request]}
	sections = sections[h.Request:]
	r.Reply, sections = sections[:h.Reply:h.Reply], sections[h.Reply:]
	r.PromptTokenIDs, sections = readIDs(sections, h.Prompt)
	r.TokenIDs, sections = readIDs(sections, h.TokenIDs)
	r.Logprobs = make([]float64, h.Logprobs)
	for i := range r.Logprobs {
		r.Logprobs[i] = math.Float64frombits(binary.LittleEndian.Uint64(sections[8*i:]))
	}
	r.restore(h.Cut)
	return r, nil
}

// restore puts the prompt's ids back where they stood.
func (r *Record) restore(c *cut) {
	if c == nil {
		return
	}
	whole := make([]byte, 0, len(r.Reply)+11*len(r.PromptTokenIDs)+2)
	whole = chat.AppendIDs(append(whole, r.Reply[:c.At]...), r.PromptTokenIDs, c.Spaced)
	r.PromptAt = chat.Span{Start: c.At, End: len(whole), Spaced: c.Spaced}
	r.Reply = append(whole, r.Reply[c.At:]...)
}

func readIDs(b []byte, n int) (ids []int32, rest []byte) {
	ids = make([]int32, n)
	for i := range ids {
		ids[i] = int32(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return ids, b[4*n:]
}
