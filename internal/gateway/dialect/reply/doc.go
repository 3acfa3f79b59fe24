// Package reply reads replies of model endpoints while they arrive: whether a reply is complete, its usage,
// and the engine's own token ids and log probabilities.
//
// It scans the bytes once, so that thousands of chunks do not become thousands of JSON trees.
package reply
