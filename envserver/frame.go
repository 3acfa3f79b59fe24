package envserver

import (
	"errors"

	"github.com/rolloutd/rolloutd/envserver/internal/issue"
	"github.com/rolloutd/rolloutd/envserver/internal/pyjson"
	"github.com/rolloutd/rolloutd/envserver/internal/session"
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

// frame is one message to the client.
type frame struct {
	Type string `json:"type"`
	Data any    `json:"data"`
}

// encoded is a reply as its bytes.
type encoded []byte

// listFrame is the reply to list_tools over /ws, made once: the schemas in it are most of what there is to encode, and never
// change.
func (s *Server) listFrame() (encoded, error) {
	return pyjson.Encode(frame{"observation", stepResponse{Observation: s.listTools()}})
}

func errorFrame(code, message string, extra map[string]any) frame {
	data := map[string]any{"message": text.Head(message, maxDetail), "code": code}
	for k, v := range extra {
		data[k] = v
	}
	return frame{"error", data}
}

func invalidFrame(found issue.List) frame {
	return errorFrame(codeValidation, "Invalid message", map[string]any{"errors": found})
}

func failedFrame(message string) any { return errorFrame(codeExecution, message, nil) }

// refusal says why a connection gets no session.
func refusal(err error) any {
	var full *session.CapacityError
	if errors.As(err, &full) {
		return errorFrame(codeCapacity, err.Error(), map[string]any{"active_sessions": full.Active, "max_sessions": full.Max})
	}
	return errorFrame(codeSession, err.Error(), nil)
}
