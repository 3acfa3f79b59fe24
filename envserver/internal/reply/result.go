package reply

import (
	"errors"
	"slices"

	"github.com/rolloutd/rolloutd/envserver/internal/tools"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/text"
)

// MaxDetail bounds the text of an error, in characters: it may repeat what a client sent.
const MaxDetail = 4000

// Explain returns the text of an error for clients.
func Explain(err error) string { return text.Head(err.Error(), MaxDetail) }

// toolError is the form of a failed call in an observation; clients refuse additional members.
type toolError struct {
	Type    toolErrorType `json:"error_type" required:"true"`
	Message string        `json:"message" required:"true" description:"description of the error"`

	_ struct{} `title:"ToolError" additionalProperties:"false"`
}

type toolErrorType string

// Enum returns the values for the OpenAPI document; clients know no others.
func (toolErrorType) Enum() []any {
	return []any{"execution_error", "invalid_args", "transport_error", "tool_not_found", "timeout"}
}

// ToolErrorOf converts the error of a call to its form in an observation.
func ToolErrorOf(err error) *toolError {
	var unknown *tools.UnknownError
	if errors.As(err, &unknown) {
		return &toolError{Type: "tool_not_found", Message: Explain(err)}
	}

	return &toolError{Type: toolErrorType(fault.EdgeOf(fault.KindOf(err)).ToolError), Message: Explain(err)}
}

// textBlock and resultModel are a tool's result on the wire. Some clients read the text of content, others
// data. The reference repeats the text a third time in structured_content; a result of many turns would
// then exceed the message limit of its clients.
type textBlock struct {
	Type        string `json:"type" const:"text"`
	Text        string `json:"text"`
	Annotations any    `json:"annotations"`
	Meta        any    `json:"meta"`
}

type resultModel struct {
	Content    []textBlock       `json:"content" nullable:"false"`
	Structured map[string]string `json:"structured_content" description:"null"`
	Meta       any               `json:"meta"`
	Data       string            `json:"data"`
	IsError    bool              `json:"is_error"`
	// IsErrorMCP is the same under its name in MCP.
	IsErrorMCP bool `json:"isError"`
}

// form returns the wire form of a tool's result, in pieces; the two pieces with the text share its memory.
func form(text *tools.Text) [][]byte {
	const before, mid, behind = `{"content":[{"type":"text","text":"`, `","annotations":null,"meta":null}],"structured_content":null,"meta":null,"data":"`,
		`","is_error":false,"isError":false}`

	return [][]byte{[]byte(before), text.Quoted, []byte(mid), text.Quoted, []byte(behind)}
}

// callResult is an encoded resultModel; the members of the model are only for the schema.
type callResult struct {
	resultModel
	Text *tools.Text
}

func (r *callResult) MarshalJSON() ([]byte, error) { return slices.Concat(form(r.Text)...), nil }

// ResultOf converts a tool's result to its form in an observation.
func ResultOf(text *tools.Text) *callResult { return &callResult{Text: text} }
