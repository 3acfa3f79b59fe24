// Package probe asks a model endpoint once what it gives: token ids, log probabilities before or after the temperature, and tool calls.
package probe
