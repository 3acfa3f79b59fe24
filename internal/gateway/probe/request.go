package probe

import "github.com/rolloutd/rolloutd/internal/gateway/dialect/reply"

// promptRequest returns the request for a prompt in the agent's API.
func (e Endpoint) promptRequest(text string) map[string]any {
	switch e.Dialect.API {
	case reply.Completions:
		return map[string]any{"prompt": text}
	case reply.Responses:
		return map[string]any{"input": text}
	default:
		return map[string]any{"messages": []map[string]string{{"role": "user", "content": text}}}
	}
}

// withTool returns a request that should be answered with a tool call.
func (e Endpoint) withTool() map[string]any {
	const name, says = "bash", "Runs a command."

	parameters := map[string]any{
		"type":       "object",
		"properties": map[string]any{"command": map[string]string{"type": "string"}},
		"required":   []string{"command"},
	}

	var tool map[string]any

	switch e.Dialect.API {
	case reply.Responses:
		tool = map[string]any{"type": "function", "name": name, "description": says, "parameters": parameters}
	case reply.Messages:
		tool = map[string]any{"name": name, "description": says, "input_schema": parameters}
	default:
		tool = map[string]any{
			"type":     "function",
			"function": map[string]any{"name": name, "description": says, "parameters": parameters},
		}
	}

	request := e.promptRequest("Endpoint probe: call the tool bash with the command `true`.")
	request["tools"] = []any{tool}

	return request
}
