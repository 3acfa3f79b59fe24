// Package external calls tools outside the sandbox: those of a tool server (HTTP) and those of MCP servers
// (streamable HTTP, or a process of the host).
//
// One rule classifies failed calls. A failure that depends on the call is a result for the policy: the
// tool's own error, refused arguments, an answer that is too large, a timeout. Anything else is an
// infrastructure failure, which is retried under the same id: a server that cannot be reached, that refuses
// our token, or whose answer does not follow the protocol.
package external
