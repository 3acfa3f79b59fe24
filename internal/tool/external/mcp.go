package external

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/input/jsoninput"
	"github.com/rolloutd/rolloutd/internal/tool"
)

// mcpServer implements remote for an MCP server. All calls share one session; the next call opens a broken one again.
type mcpServer struct {
	connect func() mcp.Transport

	mu      sync.Mutex
	session *mcp.ClientSession
	closed  bool
}

// idempotencyMeta and scopeMeta are the metadata keys of a call's id and of the attempt. Servers may ignore them.
const (
	idempotencyMeta = "rolloutd/idempotency_key"
	scopeMeta       = "rolloutd/trajectory_id"
)

func (s *mcpServer) open(ctx context.Context) (*mcp.ClientSession, error) {
	s.mu.Lock()
	defer s.mu.Unlock()

	if s.closed {
		return nil, fault.New(fault.Unavailable, "the server is being stopped")
	}

	if s.session != nil {
		return s.session, nil
	}

	ctx, cancel := context.WithTimeout(ctx, listTime)
	defer cancel()

	client := mcp.NewClient(&mcp.Implementation{
		Name:    "rolloutd",
		Version: "1",
	}, &mcp.ClientOptions{Capabilities: &mcp.ClientCapabilities{}})

	session, err := client.Connect(ctx, s.connect(), nil)
	if err != nil {
		return nil, fault.Wrap(fault.Unavailable, err, "open an MCP session")
	}

	s.session = session

	return session, nil
}

// dropSession ends a session that failed, if it is still the current one.
func (s *mcpServer) dropSession(broken *mcp.ClientSession) {
	s.mu.Lock()

	current := s.session == broken
	if current {
		s.session = nil
	}
	s.mu.Unlock()

	if current {
		// it is broken
		_ = broken.Close()
	}
}

func (s *mcpServer) close() error {
	s.mu.Lock()
	session := s.session
	s.session, s.closed = nil, true
	s.mu.Unlock()

	if session == nil {
		return nil
	}

	return session.Close()
}

func (s *mcpServer) list(ctx context.Context) ([]tool.Definition, error) {
	session, err := s.open(ctx)
	if err != nil {
		return nil, err
	}

	var list []tool.Definition

	for t, err := range session.Tools(ctx, nil) {
		if err != nil {
			s.dropSession(session)
			return nil, fault.Wrap(fault.Unavailable, err, "tools/list")
		}

		schema, err := json.Marshal(t.InputSchema)
		if err != nil {
			return nil, fault.Wrap(fault.Unavailable, err, "tools/list: schema of %.100q", t.Name)
		}

		list = append(list, tool.Definition{Name: t.Name, Description: t.Description, Parameters: schema})
		if len(list) > 4*maxTools {
			// the server's list is endless
			break
		}
	}

	return list, nil
}

func (s *mcpServer) call(ctx context.Context, r request) (tool.Result, error) {
	session, err := s.open(ctx)
	if err != nil {
		return tool.Result{}, err
	}

	params := &mcp.CallToolParams{
		Name:      r.name,
		Arguments: r.arguments,
		Meta:      mcp.Meta{idempotencyMeta: r.key(), scopeMeta: r.scope},
	}
	res, err := session.CallTool(ctx, params)

	var (
		refused *jsonrpc.Error
		large   *jsoninput.Error
	)

	switch {
	case err == nil:
		return mcpResult(res), nil
	case errors.As(err, &refused):
		return tool.Failed(bounded("the MCP server refused the call: "+refused.Message, maxMessage/2)), nil
	case ctx.Err() != nil: // the call is canceled, the session stays
		return tool.Result{}, fault.Wrap(fault.Unavailable, err, "tools/call")
	}

	s.dropSession(session)

	if errors.As(err, &large) {
		return tooLarge(large), nil
	}

	return tool.Result{}, fault.Wrap(fault.Unavailable, err, "tools/call")
}

// mcpResult returns a tool's answer as text. Other content is described with its size.
func mcpResult(res *mcp.CallToolResult) tool.Result {
	var parts []string
	for _, c := range res.Content {
		parts = append(parts, contentText(c))
	}

	if len(parts) == 0 && res.StructuredContent != nil {
		if raw, err := json.Marshal(res.StructuredContent); err == nil {
			parts = append(parts, string(raw))
		}
	}

	output := strings.Join(parts, "\n")
	if res.IsError {
		return result(false, "", output, nil)
	}

	return result(true, output, "", nil)
}

func contentText(c mcp.Content) string {
	switch c := c.(type) {
	case *mcp.TextContent:
		return c.Text
	case *mcp.ImageContent:
		return fmt.Sprintf("[image of %d bytes (%s), which is not shown]", len(c.Data), c.MIMEType)
	case *mcp.AudioContent:
		return fmt.Sprintf("[audio of %d bytes (%s), which is not shown]", len(c.Data), c.MIMEType)
	case *mcp.ResourceLink:
		return c.URI
	case *mcp.EmbeddedResource:
		if c.Resource != nil && c.Resource.Text != "" {
			return c.Resource.Text
		}

		if c.Resource != nil {
			return fmt.Sprintf("[resource %s of %d bytes, which is not shown]", c.Resource.URI, len(c.Resource.Blob))
		}
	}

	return "[content of an unknown type, which is not shown]"
}
