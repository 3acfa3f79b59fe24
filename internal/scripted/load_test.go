package scripted_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/scripted"
)

func TestLoadTakesOneScriptOrAList(t *testing.T) {
	t.Parallel()

	one, err := scripted.Load(strings.NewReader("name: a\nturns: [{text: hi}]\n"))
	require.NoError(t, err)
	require.Len(t, one, 1)

	two, err := scripted.Load(
		strings.NewReader("- {name: a, match: x, turns: [{text: hi}]}\n- {turns: [{text: ho}]}\n"),
	)
	require.NoError(t, err)
	require.Len(t, two, 2)
	require.Equal(t, "ho", two[1].Turns[0].Text)
}

func TestLoadSaysWhatIsWrongAndWhere(t *testing.T) {
	t.Parallel()

	for name, c := range map[string]struct{ text, want string }{
		"empty":             {"", "must be one script (name, match, turns) or a list of them, got nothing"},
		"no scripts":        {"[]", "must have at least one script"},
		"no turns":          {"name: a", `scripts[0] "a".turns: must not be empty`},
		"unknown field":     {"turns: [{txt: hi}]", "line 1: field txt: no such field of a script; did you mean text?"},
		"two documents":     {"turns: [{text: a}]\n---\nturns: [{text: b}]", "more than one YAML document"},
		"not YAML":          {"a: [", "did not find"},
		"wrong shape":       {"hello", "must be a script (name, match, turns), got `hello`"},
		"hidden script":     {"- turns: [{text: a}]\n- turns: [{text: b}]", "matches everything"},
		"hidden fault":      {"turns: [{faults: [{hang: true}, {status: 500}]}]", "turns[0].faults[0]: has no times"},
		"two faults in one": {"turns: [{faults: [{hang: true, status: 500}]}]", "must have one kind of fault, got status and hang"},
		"idle fault":        {"turns: [{faults: [{times: 2}]}]", "must have status"},
		"status":            {"turns: [{faults: [{status: 200}]}]", "must be 400 to 599, got 200"},
		"key alone":         {"turns: [{faults: [{hang: true, echo_key: true}]}]", "need a status"},
		"negative cut":      {"turns: [{faults: [{cut_after: -1}]}]", "faults[0]: must not have negative numbers"},
		"negative filler":   {"turns: [{filler: -1}]", "filler: must not be negative, got -1"},
		"finish reason":     {"turns: [{finish_reason: done}]", `content_filter, got "done"`},
		"nameless call":     {"turns: [{tool_calls: [{arguments: {}}]}]", "tool_calls[0].name: must not be empty"},
		"list as arguments": {"turns: [{tool_calls: [{name: a, arguments: [1]}]}]", "must be a mapping"},
		"odd keys":          {"turns: [{tool_calls: [{name: a, arguments: {b: {1: 2}}}]}]", "tool_calls[0].arguments"},
		"two paces":         {"pace: {chunk_delay: 1s, tokens_per_second: 3}\nturns: [{text: a}]", "scripts[0].pace"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			_, err := scripted.Load(strings.NewReader(c.text))
			require.ErrorContains(t, err, c.want)
		})
	}
}

// FuzzLoad checks that every script that loads can be served.
func FuzzLoad(f *testing.F) {
	f.Add(
		"- {match: x, loop: true, turns: [{text: hi, reasoning: r, tool_calls: [{name: a, arguments: {b: 1}}]}]}\n- {turns: [{filler: 3}]}",
	)
	f.Add("turns: [{faults: [{status: 429, retry_after: 2s, times: 1}, {cut_after: 2}]}]")
	f.Fuzz(func(t *testing.T, text string) {
		scripts, err := scripted.Load(strings.NewReader(text))
		if err != nil {
			return
		}

		for _, s := range scripts {
			for _, turn := range s.Turns {
				if turn.Filler > 1<<16 {
					// valid, but too slow for the fuzz test
					return
				}
			}
		}

		scripted.New(scripted.Options{Scripts: scripts})
	})
}
