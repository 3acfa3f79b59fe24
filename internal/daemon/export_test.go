package daemon

import "go.temporal.io/sdk/interceptor"

// Tests of single parts: Run would need a Temporal cluster, a sandbox and root.
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

// NewRestarts returns the workers' interceptor.
func NewRestarts() interceptor.WorkerInterceptor { return &restarts{} }
