// Package conversation reads the messages between an agent and its model from a trace, for every model API.
package conversation
