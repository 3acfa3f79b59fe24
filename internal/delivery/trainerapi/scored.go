package trainerapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// members are the names of a scored group's members, in the order of serving.
var members = []string{
	"tokens", "masks", "scores", "advantages", "ref_logprobs", "messages", "generation_params",
	"inference_logprobs", "overrides", "group_overrides", "images", "env_id", "distill_token_ids",
	"distill_logprobs",
}

// scored is a group from POST /scored_data.
type scored struct {
	sequences int
	env       *int

	// the group with all members; missing ones are null
	payload []byte
}

// parsed is the state of parsing a group.
type parsed struct {
	// lengths of the lists of each sequence, by member; absent: null
	lengths map[string][]int

	// by member
	raw    map[string][]byte
	scores int
	env    *int

	// has members that are not served, or a duplicate
	odd bool
}

// parseScored parses and checks a group. It works in the bytes of body and may write after their end.
func parseScored(body []byte) (scored, error) {
	s := &scanner{b: body}

	g, err := s.group()
	if err != nil {
		return scored{}, err
	}

	end := s.i
	if s.space(); s.i != len(s.b) {
		return scored{}, s.broken("body", "must have nothing after the object")
	}

	if err := g.check(); err != nil {
		return scored{}, err
	}

	return scored{sequences: len(g.lengths["tokens"]), env: g.env, payload: g.payload(body[:end])}, nil
}

// group reads an object.
func (s *scanner) group() (*parsed, error) {
	g := &parsed{lengths: map[string][]int{}, raw: map[string][]byte{}, scores: -1}

	if !s.skipByte('{') {
		return nil, s.broken("body", "must be a JSON object")
	}

	if s.skipByte('}') {
		return g, nil
	}

	for {
		name, err := s.key()
		if err != nil {
			return nil, err
		}

		s.space()

		start := s.i
		if err := s.member(g, name); err != nil {
			return nil, err
		}

		g.odd = g.odd || g.raw[name] != nil || !slices.Contains(members, name)

		g.raw[name] = s.b[start:s.i]
		if s.skipByte('}') {
			return g, nil
		}

		if !s.skipByte(',') {
			return nil, s.broken("body", "must have a comma or the end of the object after each member")
		}
	}
}

// member reads a member's value.
func (s *scanner) member(g *parsed, name string) (err error) {
	switch name {
	case "tokens":
		return s.lists(g, name, func(field string) (int, error) { return s.ints(field, 0, math.MaxInt32) })
	case "masks":
		return s.lists(g, name, func(field string) (int, error) { return s.ints(field, math.MinInt32, math.MaxInt32) })
	case "advantages", "ref_logprobs", "inference_logprobs":
		if s.null() {
			delete(g.lengths, name)
			return nil
		}

		return s.lists(g, name, s.floats)
	case "scores":
		g.scores, err = s.floats(name)
		return err
	case "env_id":
		return s.envID(g)
	default:
		raw, err := s.value(name)
		if err == nil {
			err = checkForm(name, raw)
		}

		return err
	}
}

func (s *scanner) lists(g *parsed, name string, read func(field string) (int, error)) error {
	var lengths []int

	_, err := s.list(name, maxSequences, func(n int) error {
		length, err := read(at(name, n))
		lengths = append(lengths, length)

		return err
	})

	if lengths == nil {
		lengths = []int{}
	}

	g.lengths[name] = lengths

	return err
}

func (s *scanner) envID(g *parsed) error {
	raw, err := s.value("env_id")
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
func (g *parsed) check() error {
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

// payload returns the group with all members. If possible, it appends the missing ones to the body.
func (g *parsed) payload(body []byte) []byte {
	out := bytes.TrimLeft(body, " \t\r\n")
	if g.odd {
		out = []byte("{")
	} else {
		out = out[:len(out)-1]
	}

	for _, name := range members {
		raw := g.raw[name]
		if !g.odd && raw != nil {
			continue
		}

		if len(out) > 1 {
			out = append(out, ',')
		}

		out = fmt.Appendf(out, "%q:", name)

		if raw == nil {
			raw = []byte("null")
		}

		out = append(out, raw...)
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
