// Package transcript reads a trace as the conversation that people read: each model call with the messages that
// are new in its request, and its reply. Answers are bounded: a long trace comes in pages, a long text in ranges.
package transcript
