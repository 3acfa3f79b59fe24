// Package trace keeps the record of every model call on disk, one append-only file for each route.
//
// A frame is the length of its body, the body's CRC-32C, and the body; a body is a JSON head followed by raw sections
// (request and reply as they went over the wire, prompt and completion ids as int32, logprobs as float64, all little
// endian), so that nothing is re-encoded on the way of a call. Append returns when the frame is on disk; appends that come
// together share one sync. Opening a file cuts a torn tail off; nothing before it is lost.
package trace
