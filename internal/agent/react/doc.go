// Package react is an agent that acts by tool calls: it asks the model, runs the tools that the reply calls, appends their results, and
// asks again, until a reply calls none.
//
// It runs on the host and keeps no journal. Each model call has an id that follows from its step, under which the gateway answers a repeated
// call from its record; each tool call has one under which the sandbox returns the result of the execution that already happened. After a
// crash the loop runs again from the start and reaches the point of the crash without a second effect.
//
// Prompts are deterministic: the same task and replies give the same bytes.
package react
