package envserver

import (
	"context"
	"errors"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/rolloutd/rolloutd/envserver/internal/issue"
	"github.com/rolloutd/rolloutd/envserver/internal/tools"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/text"
)

// unknownTool is the label of tools that do not exist; their names are the client's invention.
const unknownTool = "unknown"

// call runs a tool for any transport, with its span, its metrics and, for a bug of ours, its line in the log.
func (s *Server) call(ctx context.Context, c tools.Call) (*tools.Text, error) {
	name := c.Tool
	if _, ok := s.tools.Find(name); !ok {
		name = unknownTool
	}
	ctx, span := s.tracer.Start(ctx, "tool "+name, trace.WithAttributes(attribute.String("rolloutd.tool", name)))
	defer span.End()
	begun := time.Now()
	text, err := s.tools.Call(ctx, c)
	s.metrics.called(name, outcome(err), time.Since(begun))
	if err != nil {
		span.SetStatus(codes.Error, outcome(err))
	}
	var bug *tools.PanicError
	if errors.As(err, &bug) {
		return nil, fault.New(fault.Internal, "internal error (id %s)", s.logPanic(bug.Value, bug.Stack))
	}
	return text, err
}

// maxDetail bounds the text of an error, in characters: it may repeat what a client sent.
const maxDetail = 4000

// explain is the text of an error as clients get it.
func explain(err error) string { return text.Head(err.Error(), maxDetail) }

func outcome(err error) string {
	var unknown *tools.UnknownError
	switch {
	case err == nil:
		return "ok"
	case errors.As(err, &unknown):
		return "tool_not_found"
	default:
		return string(fault.KindOf(err))
	}
}

// toolError is the form of a failed call in an observation; clients refuse further fields.
type toolError struct {
	Type    toolErrorType `json:"error_type" required:"true"`
	Message string        `json:"message" required:"true" description:"what went wrong, for people"`

	_ struct{} `title:"ToolError" additionalProperties:"false"`
}

type toolErrorType string

// Enum is how the document's library asks for the values; clients know no others.
func (toolErrorType) Enum() []any {
	return []any{"execution_error", "invalid_args", "transport_error", "tool_not_found", "timeout"}
}

func asToolError(err error) *toolError {
	var unknown *tools.UnknownError
	if errors.As(err, &unknown) {
		return &toolError{Type: "tool_not_found", Message: explain(err)}
	}
	return &toolError{Type: toolErrorType(fault.EdgeOf(fault.KindOf(err)).ToolError), Message: explain(err)}
}

// textBlock and resultModel are a tool's result as the reference writes it: with its text three times over.
type textBlock struct {
	Type        string `json:"type" const:"text"`
	Text        string `json:"text"`
	Annotations any    `json:"annotations"`
	Meta        any    `json:"meta"`
}

type resultModel struct {
	Content    []textBlock       `json:"content" nullable:"false"`
	Structured map[string]string `json:"structured_content"`
	Meta       any               `json:"meta"`
	Data       string            `json:"data"`
	IsError    bool              `json:"is_error"`
	// IsErrorMCP is the same under the name that MCP gives it.
	IsErrorMCP bool `json:"isError"`
}

// form is a tool's result as clients get it, in pieces; those that are the text are one and the same.
func form(text *tools.Text) [][]byte {
	const before, mid, last, behind = `{"content":[{"type":"text","text":"`, `","annotations":null,"meta":null}],"structured_content":{"result":"`,
		`"},"meta":null,"data":"`, `","is_error":false,"isError":false}`
	return [][]byte{[]byte(before), text.Quoted, []byte(mid), text.Quoted, []byte(last), text.Quoted, []byte(behind)}
}

// callResult is a resultModel that is encoded already; the model's members are for the schema alone.
type callResult struct {
	resultModel
	text *tools.Text
}

func (r *callResult) MarshalJSON() ([]byte, error) { return slices.Concat(form(r.text)...), nil }

func asResult(text *tools.Text) *callResult { return &callResult{text: text} }

// limit bounds the answer to a JSON-RPC call: by timeout_s in its _meta, where the protocol has what is not the tool's, else by
// the server's own limit.
func (s *Server) limit(meta map[string]any) (time.Duration, error) {
	c := issue.Check(meta)
	asked, ok := c.Positive("timeout_s")
	switch wrong := c.Found(false); {
	case len(wrong) > 0:
		return 0, fault.Field("_meta.timeout_s", "%s", wrong[0].Msg)
	case ok:
		return secondsLimit(asked), nil
	}
	return max(s.o.StepTimeout, 0), nil
}

// secondsLimit turns a client's timeout into a limit; absurdly long ones are as good as none.
func secondsLimit(s float64) time.Duration {
	if s > float64(1<<31) {
		return 0
	}
	return max(time.Duration(s*float64(time.Second)), 1)
}
