// Package gateway is what the other roles know of a host's model gateway: its routes, their status, and clients of its two APIs.
//
// The gateway itself is package proxy. A route is one agent sandbox's way to its model.
package gateway
