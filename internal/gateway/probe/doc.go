// Package probe finds out once what a model endpoint returns: token ids, log probabilities before or after
// the temperature, and tool calls.
package probe
