// Package episode is what a host's tool service and its callers share: calls and answers, the steps of an
// episode, and the client. Package toolservice is the host's side. The service runs in the worker; the edge
// reaches it directly, so that a tool call passes through no workflow.
package episode
