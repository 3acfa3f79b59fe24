package yamlinput_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"bytes"

	"github.com/rolloutd/rolloutd/internal/input/yamlinput"
)

type file struct {
	Name    string             `yaml:"name"`
	Done    bool               `yaml:"done"`
	Count   *int               `yaml:"count"`
	Share   float64            `yaml:"share"`
	Wait    time.Duration      `yaml:"wait"`
	Args    []string           `yaml:"args"`
	Prices  map[string]float64 `yaml:"prices"`
	Any     map[string]any     `yaml:"any"`
	Section struct {
		Listen string `yaml:"listen"`
	} `yaml:"section"`
	List []struct {
		Path string `yaml:"path"`
	} `yaml:"list"`
}

func explain(text string, secret bool) error {
	dec := yaml.NewDecoder(bytes.NewReader([]byte(text)))
	dec.KnownFields(true)

	f := yamlinput.File{Type: reflect.TypeFor[file](), Noun: "a file", Shape: "a mapping with name", Secret: secret}

	return f.Explain(dec.Decode(new(file)))
}

func TestExplain(t *testing.T) {
	t.Parallel()

	for text, want := range map[string]string{
		"name: [a]":              "line 1: must be a string, got a list",
		"done: maybe":            "line 1: must be true or false, got `maybe`",
		"count: many":            "line 1: must be a whole number, got `many`",
		"share: {}":              "line 1: must be a number, got a mapping",
		"wait: soon":             "line 1: must be a duration such as 30s, got `soon`",
		"args: a":                "line 1: must be a list of strings, got `a`",
		"prices: [1]":            "line 1: must be a mapping of strings to numbers, got a list",
		"any: 5":                 "line 1: must be a mapping, got `5`",
		"section: x":             "line 1: must be a mapping, got `x`",
		"list: x":                "line 1: must be a list of mappings, got `x`",
		"- a":                    "line 1: must be a mapping with name, got a list",
		"section: {lisen: x}":    "line 1: field lisen: no such field of a file; did you mean listen?",
		"list: [{pth: x}]":       "line 1: field pth: no such field of a file; did you mean path?",
		"colour: red\ndone: 5\n": "line 1: field colour: no such field of a file; line 2: must be true or false, got `5`",
		"name: [":                "line 1: did not find expected node content",
	} {
		require.EqualError(t, explain(text, false), want, text)
	}

	require.NoError(t, explain("name: a", false))
}

func TestSecretsAreNotShown(t *testing.T) {
	t.Parallel()
	require.EqualError(
		t,
		explain("args: hunter2`hunter2\nname: []\n", true),
		"line 1: must be a list of strings, got a string; line 2: must be a string, got a list",
	)
}

// A value of a wrong type is reported with the path of its field, also where several are on one line.
func TestExplainInNamesTheFields(t *testing.T) {
	t.Parallel()

	for text, want := range map[string]string{
		"count: many": "line 1: count must be a whole number, got `many`",
		"name: a\nsection:\n  listen: [1]\nwait: soon\n":             "line 3: section.listen must be a string, got a list; line 4: wait must be a duration such as 30s, got `soon`",
		"list: [{path: [a]}, {path: {}}]":                            "line 1: list[0].path must be a string, got a list; line 1: list[1].path must be a string, got a mapping",
		"{done: maybe, name: ok, share: much, prices: {a: 1, b: x}}": "line 1: done must be true or false, got `maybe`; line 1: share must be a number, got `much`; line 1: prices.b must be a number, got `x`",
		"colour: red\nargs: a":                                       "line 1: field colour: no such field of a file; line 2: args must be a list of strings, got `a`",
		"- a":                                                        "line 1: must be a mapping with name, got a list",
	} {
		var into file

		dec := yaml.NewDecoder(bytes.NewReader([]byte(text)))
		dec.KnownFields(true)

		f := yamlinput.File{Type: reflect.TypeFor[file](), Noun: "a file", Shape: "a mapping with name"}
		require.EqualError(t, f.ExplainIn(dec.Decode(&into), []byte(text)), want, text)
	}
}
