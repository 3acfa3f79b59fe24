package tool_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/tool"
)

// echo is a tool that returns its arguments.
type echo string

func (e echo) Definition() tool.Definition {
	return tool.Definition{
		Name: string(e),
		Parameters: json.RawMessage(
			`{"type":"object","properties":{"command":{"type":"string"},"timeout":{"type":"integer","minimum":1},"lines":{"type":"array","items":{"type":"integer"}}},"required":["command"]}`,
		),
	}
}

func (e echo) Call(_ context.Context, _ tool.Env, c tool.Call) (tool.Result, error) {
	return tool.Result{Content: string(c.Arguments)}, nil
}

func registry(t *testing.T) *tool.Registry {
	t.Helper()

	r, err := tool.NewRegistry(
		[]tool.Tool{echo("terminal"), echo("bash"), echo("read_file"), echo("tmux")},
		[]tool.Toolset{
			{Name: "default", Includes: []string{"sandbox"}},
			{Name: "sandbox", Tools: []string{"terminal"}, Includes: []string{"files", "circle"}},
			{Name: "files", Tools: []string{"read_file"}},
			{Name: "circle", Includes: []string{"sandbox"}},
			{Name: "none"},
		},
	)
	require.NoError(t, err)

	return r
}

func TestSelect(t *testing.T) {
	t.Parallel()

	for _, c := range []struct {
		enabled, disabled []string
		want              string
	}{
		{nil, nil, "terminal read_file"},
		{[]string{}, nil, "terminal read_file"},
		{[]string{"circle"}, nil, "terminal read_file"},
		{[]string{"all"}, nil, "terminal bash read_file tmux"},
		{[]string{"*"}, []string{"sandbox"}, "bash tmux"},
		{[]string{"default"}, []string{"files"}, "terminal"},
		{[]string{"none"}, nil, ""},
		{nil, []string{"all"}, ""},
	} {
		s, err := registry(t).Select(c.enabled, c.disabled)
		require.NoError(t, err)

		var names []string

		set, err := s.Bind(t.Context(), tool.Env{})
		require.NoError(t, err)

		for _, d := range set.Definitions() {
			names = append(names, d.Name)
		}

		require.Equal(t, c.want, strings.Join(names, " "), "%v less %v", c.enabled, c.disabled)
	}
}

func TestUnknownToolset(t *testing.T) {
	t.Parallel()

	for field, lists := range map[string][2][]string{
		"enabled_toolsets": {{"default", "web"}, nil}, "disabled_toolsets": {nil, {"web"}},
	} {
		_, err := registry(t).Select(lists[0], lists[1])

		var f *fault.Error
		require.ErrorAs(t, err, &f)
		require.Equal(t, fault.Invalid, f.Kind)
		require.Equal(t, field, f.Field)
		require.ErrorContains(
			t,
			err,
			`unknown toolset "web": must be one of circle, default, files, none, sandbox, all`,
		)
	}
}

func TestBadRegistry(t *testing.T) {
	t.Parallel()

	_, err := tool.NewRegistry([]tool.Tool{echo("a"), echo("a")}, nil)
	require.ErrorContains(t, err, "defined twice")
	_, err = tool.NewRegistry([]tool.Tool{echo("a")}, []tool.Toolset{{Name: "x", Tools: []string{"b"}}})
	require.ErrorContains(t, err, `unknown tool "b"`)
	_, err = tool.NewRegistry(nil, []tool.Toolset{{Name: "x", Includes: []string{"y"}}})
	require.ErrorContains(t, err, `unknown toolset "y"`)
	_, err = tool.NewRegistry(nil, []tool.Toolset{{Name: "all"}})
	require.ErrorContains(t, err, "reserved")
}

func TestCall(t *testing.T) {
	t.Parallel()
	selection, err := registry(t).Select(nil, nil)
	require.NoError(t, err)
	set, err := selection.Bind(t.Context(), tool.Env{})
	require.NoError(t, err)

	for _, c := range []struct{ name, arguments, content, message string }{
		{"terminal", `{"command":"ls"}`, `{"command":"ls"}`, ""},
		{"terminal", `{"command":"ls","more":1}`, `{"command":"ls","more":1}`, ""},
		{"terminal", ``, "", `invalid arguments for terminal: required: missing properties: ["command"]`},
		{"terminal", `{`, "", "not a JSON object: unexpected EOF"},
		{"terminal", `[]`, "", "not a JSON object"},
		{"terminal", `null`, "", "not a JSON object"},
		{"terminal", `{"command":"ls"} x`, "", "text follows it"},
		{"terminal", `{"command":1}`, "", "/properties/command"},
		{"terminal", `{"command":"a","timeout":0}`, "", "/properties/timeout"},
		{"terminal", `{"command":"a","timeout":"9"}`, "", "/properties/timeout"},
		{"terminal", `{"command":"[1]","lines":"[1, 12345678901234567]"}`, `{"command":"[1]","lines":[1,12345678901234567]}`, ""},
		{"terminal", `{"command":"a","lines":"[1"}`, "", "/properties/lines"},
		{"terminal", `{"command":"a","lines":"[1] 2"}`, "", "/properties/lines"},
		{"terminal", `{"command":"a","lines":"[\"b\"]"}`, "", "/properties/lines"},
		{"terminal", `{"command":"a <b","lines":null,"more":null}`, `{"command":"a \u003cb","more":null}`, ""},
		{"terminal", `{"command":null,"lines":null}`, "", "/properties/command"},
		{"terminal", strings.Repeat(`[`, 70), "", "more than 64 levels"},
		{"bash", `{"command":"ls"}`, "", `unknown tool "bash": the tools are terminal, read_file`},
		{"", ``, "", "unknown tool"},
	} {
		r, err := set.Call(t.Context(), tool.Call{ID: "1", Name: c.name, Arguments: json.RawMessage(c.arguments)})
		require.NoError(t, err, c.arguments)
		require.Equal(t, c.message != "", r.Error, c.arguments)
		require.Equal(t, c.content, r.Content)
		require.Contains(t, r.Message, c.message)
	}

	_, err = set.Call(t.Context(), tool.Call{Name: "terminal", Arguments: json.RawMessage(`{"command":"ls"}`)})
	require.True(t, fault.Is(err, fault.Invalid), "%v", err)
}

// For any arguments, either the tool gets one valid object or the policy gets a message.
func FuzzArguments(f *testing.F) {
	for _, seed := range []string{`{"command":"ls"}`, `{"command":"\ud800"}`, "{\"command\":\"\xff\"}", `{"a":1e999}`, `{"command":"a","command":2}`} {
		f.Add(seed)
	}

	r, err := tool.NewRegistry([]tool.Tool{echo("terminal")}, []tool.Toolset{{
		Name:  "default",
		Tools: []string{"terminal"},
	}})
	require.NoError(f, err)
	s, err := r.Select(nil, nil)
	require.NoError(f, err)
	set, err := s.Bind(f.Context(), tool.Env{})
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, arguments string) {
		res, err := set.Call(t.Context(), tool.Call{ID: "1", Name: "terminal", Arguments: json.RawMessage(arguments)})
		require.NoError(t, err)

		if res.Error {
			require.NotEmpty(t, res.Message)
			return
		}

		var got struct{ Command *string }
		require.NoError(t, json.Unmarshal([]byte(res.Content), &got))
		require.NotNil(t, got.Command)
	})
}
