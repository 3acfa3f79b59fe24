// Package reply reads replies of model endpoints while they arrive: whether a reply is whole, what it used, and the engine's own token
// ids and log probabilities.
//
// A reply is read by bytes, once: thousands of chunks must not become thousands of JSON trees.
package reply
