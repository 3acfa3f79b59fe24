package fault

import "net/http"

// Edge is the form of one kind at each edge of the system.
type Edge struct {
	// HTTPStatus answers a REST call.
	HTTPStatus int
	// ToolError is the OpenEnv error_type of a tool call (openenv: execution_error, invalid_args, transport_error,
	// tool_not_found, timeout).
	ToolError string
	// RPCCode is the JSON-RPC error code.
	RPCCode int
	// Retryable reports whether Temporal should run the activity again.
	Retryable bool
}

// EdgeOf returns the row of k; an unknown kind is treated as Internal.
func EdgeOf(k Kind) Edge {
	switch k {
	case Invalid:
		return Edge{http.StatusUnprocessableEntity, "invalid_args", -32602, false}
	case Unauthorized:
		return Edge{http.StatusUnauthorized, "execution_error", -32001, false}
	case NotFound:
		return Edge{http.StatusNotFound, "execution_error", -32602, false}
	case Conflict:
		return Edge{http.StatusConflict, "execution_error", -32602, false}
	case Exhausted:
		return Edge{http.StatusTooManyRequests, "execution_error", -32000, true}
	case Unavailable, ToolServerFailed:
		return Edge{http.StatusServiceUnavailable, "transport_error", -32603, true}
	case Timeout:
		return Edge{http.StatusGatewayTimeout, "timeout", -32603, false}
	case Aborted,
		SandboxLost,
		OutOfMemory,
		OutOfDisk,
		SetupFailed,
		AgentFailed,
		VerifierFailed,
		UpstreamRefused,
		UpstreamFailed:
		return Edge{http.StatusInternalServerError, "execution_error", -32603, false}
	default:
		return Edge{http.StatusInternalServerError, "execution_error", -32603, true}
	}
}
