package react

// Exports of the pure functions for tests.
var (
	SystemPrompt = systemPrompt
	ToolList     = toolList
	Response     = response
)

// Parsed is a call as returned by parseCalls.
type Parsed struct{ ID, Name, Arguments, Malformed string }

// Parse exports parseCalls.
func Parse(text string, lenient bool) []Parsed {
	var list []Parsed
	for _, c := range parseCalls(text, lenient) {
		list = append(list, Parsed{c.ID, c.Name, string(c.Arguments), c.Malformed})
	}

	return list
}
