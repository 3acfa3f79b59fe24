// Package eventlog keeps the events of the attempts that run on a host: one file of JSON lines for each attempt, to which events are appended
// as they happen. Readers follow a log while it grows, without polling. When an attempt is over its log goes to the store as a whole.
//
// An event is on the file, but not synced, when Append returns: it survives the end of the process, not a power cut, which the attempt does
// not survive either. Events with a key are appended once, so that an activity that runs again does not repeat them.
package eventlog
