// Package samplingmask reads the sampling masks of SGLang: for each sampled token the tokens that top_k, top_p and min_p
// left to the sampler.
package samplingmask

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/rolloutd/rolloutd/internal/rawjson"
)

// Mask is the mask of a completion.
type Mask struct {
	// as in rollout.SamplingMask
	Rows, IDs int
	Data      []byte

	// log probabilities of the sampled tokens among those of their rows
	Logprobs []float64
}

// Decode reads a mask, a list of ids for each sampled token, and the list of the sampled tokens' log probabilities. A row
// without its sampled token is an error.
func Decode(rows, logprobs []byte, sampled []int32) (Mask, error) {
	if len(rows) == 0 || len(logprobs) == 0 {
		return Mask{}, errors.New("the endpoint gave none")
	}

	counts, ids, err := readRows(rows, sampled)
	if err != nil {
		return Mask{}, err
	}

	m := Mask{Rows: len(counts), IDs: len(ids)}
	if m.Logprobs, err = readLogprobs(logprobs, len(sampled)); err != nil {
		return Mask{}, err
	}

	const number = 4

	m.Data = make([]byte, 0, number*(len(counts)+len(ids)))
	for _, n := range slices.Concat(counts, ids) {
		m.Data = binary.LittleEndian.AppendUint32(m.Data, uint32(n))
	}

	return m, nil
}

// readRows returns the number of each row's ids, and the ids of all rows.
func readRows(text []byte, sampled []int32) (counts, ids []int32, err error) {
	c := rawjson.Cursor{Src: text}
	for n := range c.Elements {
		if n >= len(sampled) || c.Peek() != '[' {
			return nil, nil, fmt.Errorf("it is not a list for each of %d tokens", len(sampled))
		}

		before := len(ids)
		ids, _ = c.IDs(ids)
		counts = append(counts, int32(len(ids)-before))

		if !c.Bad && !slices.Contains(ids[before:], sampled[n]) {
			return nil, nil, fmt.Errorf("row %d lacks the sampled token %d", n, sampled[n])
		}
	}

	switch {
	case !c.AtEnd():
		return nil, nil, errors.New("it is not a list of lists of ids")
	case len(counts) != len(sampled):
		return nil, nil, fmt.Errorf("it has %d rows for %d tokens", len(counts), len(sampled))
	}

	return counts, ids, nil
}

func readLogprobs(text []byte, want int) (list []float64, err error) {
	c := rawjson.Cursor{Src: text}
	for n := range c.Elements {
		if n >= want {
			break
		}

		list = append(list, c.Float())
	}

	if !c.AtEnd() || len(list) != want {
		return nil, fmt.Errorf("its log probabilities are not one for each of %d tokens", want)
	}

	return list, nil
}
