package sandboxtool

import (
	"encoding/json"

	"github.com/rolloutd/rolloutd/internal/tool"
)

// Tools lists the tools of a sandbox in the order in which they are shown.
func Tools() []tool.Tool {
	return []tool.Tool{terminal(), bash(), readFile(), writeFile(), stateful{}, tmux{}, editFile(), listFiles(), search()}
}

// Toolsets are the named groups of the tools.
func Toolsets() []tool.Toolset {
	return []tool.Toolset{
		{Name: tool.Default, Includes: []string{"sandbox"}},
		{Name: "sandbox", Includes: []string{"terminal", "filesystem"}},
		{Name: "terminal", Tools: []string{"terminal"}},
		{Name: "filesystem", Tools: []string{"read_file", "write_file"}},
		{Name: "terminal_stateful", Tools: []string{"terminal_stateful", "tmux"}},
		{Name: "bash", Tools: []string{"bash"}},
		{Name: "edit", Tools: []string{"edit_file", "list_files", "search"}},
		{Name: "coding", Includes: []string{"bash", "filesystem", "edit"}},
	}
}

// NewRegistry is a registry of these tools alone.
func NewRegistry() (*tool.Registry, error) { return tool.NewRegistry(Tools(), Toolsets()) }

// definition makes a Definition from the properties of a schema, as JSON, and the names of those that are required.
func definition(name, description, properties string, required ...string) tool.Definition {
	names, err := json.Marshal(append([]string{}, required...))
	if err != nil {
		panic(err) // strings always marshal
	}
	return tool.Definition{
		Name: name, Description: description,
		Parameters: json.RawMessage(`{"type":"object","properties":{` + properties + `},"required":` + string(names) + `}`),
	}
}
