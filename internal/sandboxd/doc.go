// Package sandboxd is the supervisor inside every sandbox, its first process. It starts named processes and
// keeps their output and exit status, moves files in and out, carries the agent's model calls to the host,
// and ends the sandbox when its lease was not renewed. Package wire describes its API.
//
// It trusts only the host side, which alone can reach its control socket. If users are separate, sandboxd
// has a user id of its own: the agent's processes cannot signal or trace it, and it reads and writes files
// with the rights of their user. Otherwise the agent's processes may signal it and race it for files. In
// both cases they may fill its disk or reach the process limit, which it survives. The OOM killer picks it
// last.
package sandboxd
