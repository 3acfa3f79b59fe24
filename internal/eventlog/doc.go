// Package eventlog keeps the events of the attempts that run on a host: one file of JSON lines for each
// attempt, to which events are appended as they happen. Readers follow a log while it grows, without
// polling. When an attempt has ended, its log is copied to the store.
//
// When Append returns, an event is in the file, but not synced: it survives the end of the process, but not
// a power cut, which the attempt does not survive either. Events with a key are appended once, so that a
// retried activity does not repeat them.
package eventlog
