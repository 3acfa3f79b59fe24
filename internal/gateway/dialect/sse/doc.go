// Package sse splits a stream of server-sent events while it arrives.
package sse
