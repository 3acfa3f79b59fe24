// Package external calls tools that run outside the sandbox: those of a tool server (HTTP) and those of MCP servers (streamable HTTP, or
// a process of the host).
//
// One rule says what becomes of a call that fails. What depends on the call is a result that the policy sees: the tool's own error, refused
// arguments, an answer that is too large, a call that takes too long. All else is a failure of infrastructure, which is tried again under
// the same id: a server that cannot be reached, that refuses our token, or whose answer is not of the protocol.
package external
