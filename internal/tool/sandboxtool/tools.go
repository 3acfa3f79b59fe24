package sandboxtool

import (
	"encoding/json"

	"github.com/rolloutd/rolloutd/internal/tool"
)

// Tools returns the tools of a sandbox in the order in which they are shown.
func Tools() []tool.Tool {
	return []tool.Tool{
		terminal(), bash(), readFile(), writeFile(), stateful{}, tmux{}, editFile(), listFiles(), search(),
	}
}

// Toolsets returns the named groups of the tools.
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

// NewRegistry returns a registry with only these tools.
func NewRegistry() (*tool.Registry, error) { return tool.NewRegistry(Tools(), Toolsets()) }

// definition returns a Definition from the properties of a schema, as JSON, and the names of the required ones.
func definition(name, description, properties string, required ...string) tool.Definition {
	names, err := json.Marshal(append([]string{}, required...))
	if err != nil {
		// strings always marshal
		panic(err)
	}

	return tool.Definition{
		Name:        name,
		Description: description,
		Parameters: json.RawMessage(
			`{"type":"object","properties":{` + properties + `},"required":` + string(names) + `}`,
		),
	}
}
