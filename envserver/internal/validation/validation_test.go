package validation_test

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/envserver/internal/validation"
)

func TestDeclaredFieldsThenUnknownFields(t *testing.T) {
	t.Parallel()

	c := validation.Check(map[string]any{"z": json.Number("1"), "a": true, "kind": "x"}, "body")
	c.Dict("data", true)
	c.Literal("kind", "y", true)
	found := c.Found(true)

	var got []string
	for _, it := range found {
		got = append(got, it.Type+" "+it.Loc[1].(string))
	}

	require.Equal(t, []string{"missing data", "literal_error kind", "extra_forbidden a", "extra_forbidden z"}, got)
}

// A message with many invalid values gets a short answer.
func TestIssuesAreBounded(t *testing.T) {
	t.Parallel()

	obj := map[string]any{
		"type":     strings.Repeat("x", 1<<20),
		"data":     strings.Repeat("y", 1<<20),
		"metadata": map[string]any{"k": strings.Repeat("z", 1<<20)},
	}
	for n := range 50_000 {
		obj[strings.Repeat("é", 500)+strconv.Itoa(n)] = make([]any, 1000)
	}

	c := validation.Check(obj)
	c.Literal("type", "step", true)
	c.Dict("data", true)
	c.String("tool_name")
	c.String("metadata")
	found := c.Found(true)
	require.Equal(t, "Extra inputs are not permitted: and 49984 more", found[len(found)-1].Msg)
	raw, err := json.Marshal(found)
	require.NoError(t, err)
	require.Less(t, len(raw), 20_000)
}

func TestText(t *testing.T) {
	t.Parallel()

	c := validation.Check(map[string]any{"s": json.Number("1"), "n": nil, "l": []any{}})
	c.String("s")
	c.String("n")
	c.Literal("l", "x", true)
	require.Equal(
		t,
		"s: Input should be a valid string; n: Input should be a valid string; l: Input should be 'x'",
		c.Found(true).String(),
	)
}

func TestNumbers(t *testing.T) {
	t.Parallel()

	for want, values := range map[string][]any{
		"":             {nil, json.Number("1"), json.Number("0.5"), "2.5"},
		"greater_than": {json.Number("0"), json.Number("-1"), "NaN"},
		"float_type":   {[]any{}, map[string]any{}, "x", "", true},
	} {
		for _, v := range values {
			c := validation.Check(map[string]any{"f": v})
			c.Positive("f")
			require.Equal(t, want, kind(c.Found(true)), "%v", v)
		}
	}

	for want, values := range map[string][]any{
		"":                   {nil, json.Number("1"), json.Number("2.0"), "7"},
		"greater_than_equal": {json.Number("-1"), "-3"},
		"int_type":           {[]any{}, json.Number("1.5"), "1.5", "x", "Infinity", true},
	} {
		for _, v := range values {
			c := validation.Check(map[string]any{"f": v})
			c.NaturalInt("f")
			require.Equal(t, want, kind(c.Found(true)), "%v", v)
		}
	}
}

func TestLengthIsInCharacters(t *testing.T) {
	t.Parallel()

	c := validation.Check(map[string]any{"a": strings.Repeat("é", 255), "b": strings.Repeat("é", 256)})
	_, ok := c.OptionalString("a", 255)
	require.True(t, ok)
	_, ok = c.OptionalString("b", 255)
	require.False(t, ok)

	found := c.Found(true)
	require.Equal(t, "string_too_long", kind(found))
	require.Equal(t, "String should have at most 255 characters", found[0].Msg)
}

func kind(l validation.List) string {
	if len(l) == 0 {
		return ""
	}

	return l[0].Type
}
