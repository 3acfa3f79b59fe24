// Package react is a ReAct agent: it calls the model, runs the tool calls of the reply, appends their
// results, and calls the model again, until a reply has no tool calls.
//
// It runs on the host and keeps no durable state. The id of a model call follows from its step: the gateway
// answers a repeated call from its record. The id of a tool call does as well: the sandbox returns the
// result of the earlier execution. After a crash the loop runs again from the start and reaches the point
// of the crash without a second effect.
//
// Prompts are deterministic: the same task and replies give the same bytes.
package react
