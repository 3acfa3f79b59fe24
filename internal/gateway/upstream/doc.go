// Package upstream makes model calls to endpoints: admission under an endpoint's limits and pauses, tries
// with back-off, endpoint quirks, and reading the reply. It does not depend on routes or records.
package upstream
