// Package arrays converts a trace to arrays for numpy: one value per turn in the trace's order, and the ids and logprobs of all turns in flat
// arrays with offsets. Text such as requests and replies is only in the JSON lines.
package arrays
