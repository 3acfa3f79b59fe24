package trainerapi

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// members are the names of a scored group's members, in the order of serving.
var members = []string{
	"tokens", "masks", "scores", "advantages", "ref_logprobs", "messages", "generation_params",
	"inference_logprobs", "overrides", "group_overrides", "images", "env_id", "distill_token_ids",
	"distill_logprobs",
}

// maxSequences bounds the sequences of a group.
const maxSequences = 4096

// group is a group from POST /scored_data.
type group struct {
	// the texts of the members that are served
	raw map[string][]byte

	// the lengths of the lists of each sequence, by member; none: absent or null
	lengths map[string][]int

	scores int
	env    *int
}

// parseGroup parses and checks the only group of a body.
func parseGroup(body []byte) (*group, error) {
	r := newReader(body)

	g, err := r.group()
	if err != nil {
		return nil, err
	}

	return g, r.end()
}

// group reads and checks a group.
func (r reader) group() (*group, error) {
	g := &group{raw: map[string][]byte{}, lengths: map[string][]int{}}

	err := r.object(func(name string) (err error) {
		if !slices.Contains(members, name) {
			_, err = r.value("body")
			return err
		}

		g.raw[name], err = r.raw(func() error { return r.member(g, name) })

		return err
	})
	if err != nil {
		return nil, err
	}

	return g, g.check()
}

// member reads a member's value.
func (r reader) member(g *group, name string) (err error) {
	switch name {
	case "tokens":
		return r.lists(g, name, func(field string) (int, error) { return r.ints(field, 0, math.MaxInt32) })
	case "masks":
		return r.lists(g, name, func(field string) (int, error) { return r.ints(field, math.MinInt32, math.MaxInt32) })
	case "advantages", "ref_logprobs", "inference_logprobs":
		if r.null() {
			delete(g.lengths, name)
			return nil
		}

		return r.lists(g, name, r.floats)
	case "scores":
		g.scores, err = r.floats(name)
		return err
	case "env_id":
		return r.envID(g)
	default:
		raw, err := r.value(name)
		if err != nil {
			return err
		}

		return checkForm(name, raw)
	}
}

func (r reader) lists(g *group, name string, read func(field string) (int, error)) error {
	lengths := []int{}

	_, err := r.list(name, maxSequences, func(n int) error {
		length, err := read(at(name, n))
		lengths = append(lengths, length)

		return err
	})

	g.lengths[name] = lengths

	return err
}

func (r reader) envID(g *group) error {
	raw, err := r.value("env_id")
	if err != nil {
		return err
	}

	g.env = nil
	if err := json.Unmarshal(raw, &g.env); err != nil || g.env != nil && (*g.env < 0 || *g.env > math.MaxInt32) {
		return fault.Field("env_id", "must be a whole number from 0 to %d, or null, got %.30s", math.MaxInt32, raw)
	}

	return nil
}

// check compares the lists: each sequence has a mask, and each of its lists has as many values as tokens.
func (g *group) check() error {
	for _, name := range members[:3] {
		if g.raw[name] == nil {
			return fault.Field(name, "is required")
		}
	}

	tokens := g.lengths["tokens"]
	if len(tokens) == 0 {
		return fault.Field("tokens", "must have at least one sequence")
	}

	if g.scores != len(tokens) {
		return fault.Field("scores", "must have one score for each of the %d sequences, got %d", len(tokens), g.scores)
	}

	for _, name := range []string{"masks", "inference_logprobs", "advantages", "ref_logprobs"} {
		lengths, ok := g.lengths[name]

		optional := name == "advantages" || name == "ref_logprobs" || name == "inference_logprobs"
		if !ok || optional && len(lengths) == 0 {
			// Atropos' environments send empty lists for missing members
			continue
		}

		if len(lengths) != len(tokens) {
			return fault.Field(name, "must have one list for each of the %d sequences, got %d",
				len(tokens), len(lengths))
		}

		for i, n := range lengths {
			if n != tokens[i] && !(name == "advantages" || name == "ref_logprobs") {
				return fault.Field(at(name, i), "must have one value for each of the %d tokens, got %d", tokens[i], n)
			}
		}
	}

	return nil
}

// sequences returns the number of sequences.
func (g *group) sequences() int { return len(g.lengths["tokens"]) }

// payload returns the group with all members that are served. Missing ones are null.
func (g *group) payload() []byte {
	size := 2
	for _, name := range members {
		size += len(name) + len(`"":null,`) + len(g.raw[name])
	}

	out := append(make([]byte, 0, size), '{')

	for i, name := range members {
		if i > 0 {
			out = append(out, ',')
		}

		out = append(strconv.AppendQuote(out, name), ':')

		if raw := g.raw[name]; raw != nil {
			out = append(out, raw...)
		} else {
			out = append(out, "null"...)
		}
	}

	return append(out, '}')
}

// checkForm checks the members that are passed on unchanged: their types, and that messages have a role and a content.
func checkForm(name string, raw []byte) error {
	var form any

	switch name {
	case "messages":
		var all [][]map[string]json.RawMessage
		if json.Unmarshal(raw, &all) != nil {
			return fault.Field(name, "must be a list of lists of messages, or null")
		}

		for i, list := range all {
			for k, m := range list {
				if m["role"] == nil || m["content"] == nil {
					return fault.Field(at(name, i, k), "Message must have 'role' and 'content' fields")
				}
			}
		}

		return nil
	case "generation_params", "group_overrides":
		form = &map[string]json.RawMessage{}
	case "overrides":
		form = &[]map[string]json.RawMessage{}
	case "distill_token_ids":
		form = &[][][]int64{}
	case "distill_logprobs":
		form = &[][][]float64{}
	default:
		return nil
	}

	if json.Unmarshal(raw, form) != nil {
		return fault.Field(name, "must be %s, or null, got %.30s", formName(name), raw)
	}

	return nil
}

func formName(name string) string {
	switch name {
	case "overrides":
		return "a list of objects"
	case "distill_token_ids", "distill_logprobs":
		return "lists of lists of lists of numbers"
	default:
		return "an object"
	}
}
