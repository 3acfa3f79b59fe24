package jsoninput_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/input/jsoninput"
)

type body struct {
	Name  string   `json:"name"`
	Count *int     `json:"count"`
	Score *float64 `json:"score"`
	Done  bool     `json:"done"`
	Names []string `json:"names"`
	Inner struct {
		Steps int64 `json:"steps"`
	} `json:"inner"`
}

func TestExplain(t *testing.T) {
	t.Parallel()

	for text, want := range map[string]string{
		`{"name":1}`:             "name: must be a string, got number",
		`{"count":"1"}`:          "count: must be a whole number, got string",
		`{"count":1.5}`:          "count: must be a whole number, got number 1.5",
		`{"score":{}}`:           "score: must be a number, got object",
		`{"done":"yes"}`:         "done: must be true or false, got string",
		`{"names":"a"}`:          "names: must be a list, got string",
		`{"inner":{"steps":[]}}`: "inner.steps: must be a whole number, got array",
		`{"inner":3}`:            "inner: must be an object, got number",
		`[]`:                     "body: must be an object, got array",
		`{"name":`:               "body: unexpected end of JSON input",
	} {
		err := jsoninput.ExplainError("body", json.Unmarshal([]byte(text), new(body)))
		require.EqualError(t, err, want, text)
		require.True(t, fault.Is(err, fault.Invalid), text)
	}

	require.NoError(t, jsoninput.ExplainError("body", nil))
}
