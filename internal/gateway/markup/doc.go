// Package markup finds the tool calls in the text that a model sampled, in the forms that the tool-call parsers of
// engines read. It names no model: a form is what stands around a call.
package markup
