// Package opencode drives OpenCode, one pinned version of it, in a sandbox.
//
// It runs `opencode serve` as the named process agent-<launch> and talks to its HTTP API through sandboxd.
// It keeps nothing on the host: process name, session and prompt are derived from the job, so a new Agent
// on the same sandbox finds the running session and does not start a second one.
//
// The gateway and RunAgent bound turns, tokens, time and retries, which OpenCode does not. The
// configuration disables permissions and questions that would wait for a person.
package opencode
