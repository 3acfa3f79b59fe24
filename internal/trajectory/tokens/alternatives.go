package tokens

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/input/jsoninput"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/text"
	"github.com/rolloutd/rolloutd/internal/trajectory/turns"
)

// Bounds of Alternatives.
const (
	// maxPositions bounds the tokens of one answer.
	maxPositions = 1000

	// maxAlternatives bounds those of one token.
	maxAlternatives = 20

	// maxElements bounds the values of a reply that are decoded.
	maxElements = 2 << 20
)

// Alternatives are the tokens that the engine gave as likely at the positions of a reply.
type Alternatives struct {
	// Start is the index of the first position in the reply.
	Start int `json:"start"`

	// Positions have the alternatives of a token each, the most likely first; the sampled token is among them if it is
	// likely enough. Empty: none were recorded.
	Positions [][]Alternative `json:"positions"`
}

// Alternative is a token that could have been sampled.
type Alternative struct {
	Text    string  `json:"text"`
	Logprob float64 `json:"logprob"`
}

// recorded is the part of a reply with its alternatives.
type recorded struct {
	Choices []struct {
		Logprobs struct {
			// in a chat completion
			Content []position `json:"content"`

			// in a completion
			Top []map[string]*float64 `json:"top_logprobs"`
		} `json:"logprobs"`
	} `json:"choices"`

	// in a response
	Output []struct {
		Content []struct {
			Logprobs []position `json:"logprobs"`
		} `json:"content"`
	} `json:"output"`
}

type position struct {
	Top []struct {
		Token   string   `json:"token"`
		Logprob *float64 `json:"logprob"`
	} `json:"top_logprobs"`
}

// ReadAlternatives reads those of a turn from a trace, JSON lines of rollout.Turn, from a position on. A turn that is not
// in the trace is a fault.NotFound.
func ReadAlternatives(lines io.Reader, turn, start int) (Alternatives, error) {
	var found *rollout.Turn

	errFound := errors.New("the turn was found")
	err := turns.Each(lines, turns.Bounded, func(t *rollout.Turn) error {
		if t.Turn != turn {
			return nil
		}

		found = t

		return errFound
	})

	switch {
	case found != nil:
		return alternativesOf(found.Response, start), nil
	case err != nil:
		return Alternatives{}, err
	default:
		return Alternatives{}, fault.New(fault.NotFound, "the trace has no turn %d", turn)
	}
}

// EachAlternatives calls each with what ReadAlternatives reads of the turns that have alternatives, from their first
// position to their last one, until it returns an error.
func EachAlternatives(lines io.Reader, each func(turn int, a Alternatives) error) error {
	return turns.Each(lines, turns.Bounded, func(t *rollout.Turn) error {
		all := positionsOf(t.Response)
		if !slices.ContainsFunc(all, func(likely []Alternative) bool { return len(likely) > 0 }) {
			return nil
		}

		for start := 0; start < len(all); start += maxPositions {
			if err := each(t.Turn, windowOf(all, start)); err != nil {
				return err
			}
		}

		return nil
	})
}

func alternativesOf(reply json.RawMessage, start int) Alternatives {
	return windowOf(positionsOf(reply), start)
}

func windowOf(all [][]Alternative, start int) Alternatives {
	start = min(start, len(all))
	window := all[start:min(start+maxPositions, len(all))]

	return Alternatives{Start: start, Positions: append([][]Alternative{}, window...)}
}

// positionsOf reads a reply. One that does not decode has no alternatives.
func positionsOf(reply json.RawMessage) [][]Alternative {
	var r recorded

	in := jsoninput.NewReader(bytes.NewReader(reply), jsoninput.Limits{Elements: maxElements, Depth: 64})
	if json.NewDecoder(in).Decode(&r) != nil {
		return nil
	}

	return r.positions()
}

// positions are those of the first choice, or of all texts of a response.
func (r recorded) positions() (all [][]Alternative) {
	for _, choice := range r.Choices[:min(len(r.Choices), 1)] {
		for _, p := range choice.Logprobs.Content {
			all = append(all, p.alternatives())
		}

		for _, logprobs := range choice.Logprobs.Top {
			var likely []Alternative
			for token, logprob := range logprobs {
				likely = addAlternative(likely, token, logprob)
			}

			all = append(all, ordered(likely))
		}
	}

	for _, item := range r.Output {
		for _, part := range item.Content {
			for _, p := range part.Logprobs {
				all = append(all, p.alternatives())
			}
		}
	}

	return all
}

func (p position) alternatives() (likely []Alternative) {
	for _, top := range p.Top {
		likely = addAlternative(likely, top.Token, top.Logprob)
	}

	return ordered(likely)
}

func addAlternative(likely []Alternative, token string, logprob *float64) []Alternative {
	if logprob == nil {
		return likely
	}

	return append(likely, Alternative{Text: text.HeadUTF8(token, maxText), Logprob: *logprob})
}

// ordered puts the most likely first.
func ordered(likely []Alternative) []Alternative {
	slices.SortFunc(likely, func(a, b Alternative) int {
		return cmp.Or(cmp.Compare(b.Logprob, a.Logprob), strings.Compare(a.Text, b.Text))
	})

	return append([]Alternative{}, likely[:min(len(likely), maxAlternatives)]...)
}
