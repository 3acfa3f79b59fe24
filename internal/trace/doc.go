// Package trace keeps the record of every model call on disk, in one commit log for all routes of a gateway.
//
// A Store is a folder of segment files that are only ever appended to; a Log is one route's view of it. A
// frame is a mark, the length of its body, the body's CRC-32C, and the body; a body is a JSON head followed
// by raw sections (request and reply as they went over the wire, prompt and completion ids as int32,
// logprobs as float64, all little endian), so that nothing is re-encoded on the way of a call. What a
// request and its prompt's ids have in common with an earlier call of the same conversation is not written
// again; see base.
//
// Append returns when the frame is on disk; appends of all routes that come together share one sync.
// Opening a store cuts a torn tail off; nothing before it is lost, and a damaged frame costs itself and
// those that were written as the difference to it. A segment is removed when no live log has a record in
// it.
package trace
