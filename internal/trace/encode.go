package trace

import (
	"encoding/binary"
	"fmt"
	"math"
	"unsafe"
)

// storedHead is a call's head on disk: Head, whose log it is of, and the lengths of the sections, in their order.
type storedHead struct {
	Head
	Log string `json:"log"`

	// bytes
	Request int `json:"n_request"`

	// bytes
	Reply int `json:"n_reply"`

	// bytes of ids
	Prompt int `json:"n_prompt"`

	// bytes of ids
	TokenIDs int `json:"n_token_ids"`

	// bytes of numbers
	Logprobs int `json:"n_logprobs"`
	// Base is the record to which Request and Prompt are the difference; nil: they are complete.
	Base *diff `json:"base,omitempty"`
	// Cut is the place in the reply from which the prompt's ids were removed.
	Cut *cut `json:"cut,omitempty"`
}

type cut struct {
	At     int  `json:"at"`
	Spaced bool `json:"spaced,omitempty"`
}

func (h *storedHead) size() int { return h.Request + h.Reply + h.Prompt + h.TokenIDs + h.Logprobs }

// wholeSizes returns the sizes of the restored request and prompt's ids, in bytes.
func (h *storedHead) wholeSizes() (request, prompt int) {
	request, prompt = h.Request, h.Prompt
	if d := h.Base; d != nil {
		request += d.Request.Prefix + d.Request.Suffix
		prompt += d.Prompt.Prefix + d.Prompt.Suffix
	}

	return request, prompt
}

// usualHead is the size of most heads, in bytes.
const usualHead = 1 << 10

// encode returns the frame of a record.
func encode(key string, r *Record, b *base) (*storedHead, frame, error) {
	request, prompt, ids, logprobs := r.Request, idBytes(r.PromptTokenIDs), idBytes(r.TokenIDs), floatBytes(r.Logprobs)
	if b.from != nil {
		request, prompt = b.from.Request.rest(request), b.from.Prompt.rest(prompt)
	}

	h := &storedHead{
		Head: r.Head, Log: key, Base: b.from,
		Request: len(request), Reply: len(r.Reply), Prompt: len(prompt), TokenIDs: len(ids), Logprobs: len(logprobs),
	}

	front, back := r.Reply, []byte(nil)
	if at := r.PromptAt; at.End > 0 {
		front, back = r.Reply[:at.Start], r.Reply[at.End:]
		h.Reply, h.Cut = len(front)+len(back), &cut{at.Start, at.Spaced}
	}

	start, err := h.append(startFrame(typeCall, usualHead))
	if err != nil {
		return nil, nil, fmt.Errorf("encode record: %w", err)
	}

	if h.size() > maxBody-len(start) {
		return nil, nil, fmt.Errorf("encode record: must have at most %d bytes, got %d", maxBody-len(start), h.size())
	}

	return h, newFrame(start, request, front, back, prompt, ids, logprobs), nil
}

// idBytes returns ids in their written form; where the byte order is the same, the memory itself.
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
