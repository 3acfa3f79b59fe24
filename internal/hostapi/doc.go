// Package hostapi is the HTTP API of a host: by it the servers of the deployment reach what only this host has, such as the events of its
// rollouts. A host announces its address in the store. Requests carry a token that follows from the deployment's key.
package hostapi
