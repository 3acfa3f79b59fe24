// Package sandboxd is the supervisor inside every sandbox: its first process. It starts named processes and keeps their output
// and exit status, moves files in and out, carries the agent's model calls to the host, and ends the sandbox when nobody has
// renewed its lease. Package wire says how it is spoken to.
//
// It trusts the host side, which alone can reach its control socket, and nothing inside: processes of the agent run under
// the same user, so they may signal it, race it for files, fill its disk or use up the process limit. It survives all of that
// except the memory limit of the sandbox, and it is the last that the OOM killer picks.
package sandboxd
