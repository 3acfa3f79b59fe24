// Package env is the environment behind every transport: sessions, actions and tool calls.
package env
