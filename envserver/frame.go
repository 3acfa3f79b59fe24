package envserver

import (
	"context"
	"errors"

	"github.com/rolloutd/rolloutd/envserver/internal/jsonvalue"
	"github.com/rolloutd/rolloutd/envserver/internal/reply"
	"github.com/rolloutd/rolloutd/envserver/internal/session"
	"github.com/rolloutd/rolloutd/envserver/internal/validation"
	"github.com/rolloutd/rolloutd/internal/text"
)

// Codes of error frames.
const (
	codeInvalidJSON = "INVALID_JSON"
	codeUnknownType = "UNKNOWN_TYPE"
	codeValidation  = "VALIDATION_ERROR"
	codeExecution   = "EXECUTION_ERROR"
	codeCapacity    = "CAPACITY_REACHED"
	codeSession     = "SESSION_ERROR"
)

// listFrame returns the reply to list_tools over /ws, encoded once: most of it is the schemas, which never
// change. The tools of interactive episodes may change, so their lists are not cached here.
func (s *Server) listFrame() (reply.Encoded, error) {
	list, err := s.env.ListTools(context.Background())
	if err != nil {
		return nil, err
	}

	return jsonvalue.Encode(reply.Frame{Type: "observation", Data: reply.StepResponse{Observation: list}})
}

func errorFrame(code, message string, extra map[string]any) reply.Frame {
	data := map[string]any{"message": text.Head(message, reply.MaxDetail), "code": code}
	for k, v := range extra {
		data[k] = v
	}

	return reply.Frame{Type: "error", Data: data}
}

func invalidFrame(found validation.List) reply.Frame {
	return errorFrame(codeValidation, "Invalid message", map[string]any{"errors": found})
}

func failedFrame(message string) any { return errorFrame(codeExecution, message, nil) }

// refusal returns the reason why a connection gets no session.
func refusal(err error) any {
	var full *session.CapacityError
	if errors.As(err, &full) {
		return errorFrame(codeCapacity, err.Error(), map[string]any{
			"active_sessions": full.Active,
			"max_sessions":    full.Max,
		})
	}

	return errorFrame(codeSession, err.Error(), nil)
}
