package tool

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// Record stores the answers of servers outside the sandbox, for one attempt of a rollout or one episode. A
// loop that is replayed after a crash sees the same tools and results, and calls nothing twice.
type Record interface {
	// Load decodes the value saved under key into v; false: none.
	Load(ctx context.Context, key string, v any) (bool, error)
	Save(ctx context.Context, key string, v any) error
}

// keptCall is a recorded call with its result. JSON texts are strings, so that their bytes are kept.
type keptCall struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
	Content   string `json:"content"`
	Error     bool   `json:"error,omitempty"`
	Message   string `json:"message,omitempty"`
	Data      string `json:"data,omitempty"`
}

func keepCall(c Call, r Result) keptCall {
	return keptCall{
		ID: c.ID, Name: c.Name, Arguments: string(c.Arguments),
		Content: r.Content, Error: r.Error, Message: r.Message, Data: string(r.Data),
	}
}

// result returns the recorded result if it is of the same call.
func (k keptCall) result(c Call) (Result, error) {
	if k.ID != c.ID || k.Name != c.Name || k.Arguments != string(c.Arguments) {
		return Result{}, fault.New(fault.Conflict, "call %q was made before with another tool or other arguments", c.ID)
	}

	return Result{Content: k.Content, Error: k.Error, Message: k.Message, Data: json.RawMessage(k.Data)}, nil
}

// keptDefinition is a recorded Definition.
type keptDefinition struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Parameters  string `json:"parameters"`
}

// listed returns the server's tools as of the first request.
func listed(ctx context.Context, env Env, s Server) ([]Definition, error) {
	if env.Record == nil {
		return list(ctx, s)
	}

	var kept []keptDefinition

	found, err := env.Record.Load(ctx, listKey(s.Name), &kept)
	if err != nil {
		return nil, err
	}

	if found {
		tools := make([]Definition, len(kept))
		for i, d := range kept {
			tools[i] = Definition{d.Name, d.Description, json.RawMessage(d.Parameters)}
		}

		return tools, nil
	}

	tools, err := list(ctx, s)
	if err != nil {
		return nil, err
	}

	kept = make([]keptDefinition, len(tools))
	for i, d := range tools {
		kept[i] = keptDefinition{d.Name, d.Description, string(d.Parameters)}
	}

	return tools, env.Record.Save(ctx, listKey(s.Name), kept)
}

func list(ctx context.Context, s Server) ([]Definition, error) {
	tools, err := s.List(ctx)
	return tools, fault.Wrap(fault.KindOf(err), err, "toolset %q", s.Name)
}

// callKey returns the key of a call in a Record. Ids are a client's text; a key has only letters and digits.
func callKey(id string) string { return key("call", id) }

// listKey returns the key of a server's tools in a Record.
func listKey(server string) string { return key("list", server) }

func key(what, name string) string {
	sum := sha256.Sum256([]byte(name))
	return what + "-" + hex.EncodeToString(sum[:16])
}
