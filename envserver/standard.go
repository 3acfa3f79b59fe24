package envserver

import (
	"context"
	"net/http"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rolloutd/rolloutd/envserver/internal/pyjson"
	"github.com/rolloutd/rolloutd/envserver/internal/tools"
	"github.com/rolloutd/rolloutd/internal/fault"
)

// isStandardMCP tells a client of the Model Context Protocol from an OpenEnv client on the same route: its transport obliges
// the former to accept an event stream, and the latter never names one.
func isStandardMCP(r *http.Request) bool {
	return strings.Contains(r.Header.Get("Accept"), "text/event-stream")
}

// standardMCP serves the same tools by the protocol's own rules (initialize, ping, notifications, camel case), stateless.
func (s *Server) standardMCP() http.Handler {
	server := mcp.NewServer(&mcp.Implementation{Name: s.o.Name, Version: s.o.Version}, &mcp.ServerOptions{Logger: s.o.Logger})
	for _, t := range s.tools.List() {
		server.AddTool(&mcp.Tool{Name: t.Name, Description: t.Description, InputSchema: t.InputSchema}, s.standardCall)
	}
	h := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server },
		&mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true, Logger: s.o.Logger})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, s.o.MaxMessage)
		h.ServeHTTP(withSplicer(w, r))
	})
}

// standardCall runs a tool. What goes wrong in it is a result for the model to read, except that there is no such tool,
// which the library has seen to.
func (s *Server) standardCall(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	args, err := standardArgs(r.Params.Arguments)
	if err != nil {
		return nil, err
	}
	limit, err := s.limit(r.Params.Meta)
	if err != nil {
		return nil, err
	}
	text, err := s.call(ctx, tools.Call{Tool: r.Params.Name, Args: args, Limit: limit})
	if err != nil {
		return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: err.Error()}}}, nil
	}
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: marked(ctx, text)}}}, nil
}

func standardArgs(raw []byte) (map[string]any, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	v, err := pyjson.Decode(raw)
	if err != nil {
		return nil, err
	}
	args, ok := v.(map[string]any)
	if !ok && v != nil {
		return nil, fault.Field("arguments", "want an object")
	}
	return args, nil
}
