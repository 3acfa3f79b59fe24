// Package arrays turns a trace into arrays for numpy: one value of each turn in the trace's order, and ids and logprobs of all
// turns flat, with offsets. What only makes sense as text, such as requests and replies, stays in the JSON lines.
package arrays
