package daemon

import "go.temporal.io/sdk/interceptor"

// What a process does with its host is tested piece by piece here: through Run it would take a Temporal cluster, a sandbox
// and root.
var (
	HostID      = hostID
	MemTotalMiB = memTotalMiB
	Fits        = fits
	CapacityOf  = capacityOf
	ServeHTTP   = serveHTTP
	Background  = background
	Admit       = admit
	Meet        = meet
	ReadTokens  = readTokens
	FindBinary  = findSandboxd
	ErrStopping = errStopping

	ExpireSessions = (*Daemon).expireSessions
)

// NewRestarts makes the interceptor that workers have.
func NewRestarts() interceptor.WorkerInterceptor { return &restarts{} }
