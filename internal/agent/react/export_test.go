package react

// What the tests see of the pure functions.
var (
	SystemPrompt = systemPrompt
	ToolList     = toolList
	Response     = response
)

// Parsed is a call as parseCalls reads it.
type Parsed struct{ ID, Name, Arguments, Malformed string }

// Parse reads the calls of a message.
func Parse(text string, lenient bool) []Parsed {
	var list []Parsed
	for _, c := range parseCalls(text, lenient) {
		list = append(list, Parsed{c.ID, c.Name, string(c.Arguments), c.Malformed})
	}
	return list
}
