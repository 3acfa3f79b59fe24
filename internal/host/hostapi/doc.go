// Package hostapi is the HTTP API of a host, by which the servers of the deployment read what only this
// host has, such as the events of its rollouts. A host announces its address in the store. Requests carry a
// token that is derived from the deployment's key.
package hostapi
