// Package gatewayapi has the API of a host's model gateway for the other roles: its routes, their status,
// and clients of its two HTTP APIs.
//
// Package gateway is the gateway itself. A route connects one agent's sandbox to its model.
package gatewayapi
