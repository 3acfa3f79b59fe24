// Package env is the environment that every transport serves: sessions, actions and tool calls.
package env
