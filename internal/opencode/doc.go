// Package opencode drives OpenCode, one pinned version of it, in a sandbox.
//
// Serve mode (the default) runs `opencode serve` as the named process agent-<launch> and talks to its HTTP API through
// sandboxd. Run mode runs `opencode run --format json` under the same name and reads its output. Neither keeps anything on the
// host: process name, session and prompt are derived from the job, so a new Agent on the same sandbox finds the work going on
// and does not begin it twice.
//
// What OpenCode itself does not bound (turns, tokens, time, retries) the gateway and RunAgent bound; what would make it wait for
// a person (permissions, questions) is configured away.
package opencode
