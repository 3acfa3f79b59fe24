// Package sandboxd is the supervisor inside every sandbox: its first process. It starts named processes and keeps their output
// and exit status, moves files in and out, carries the agent's model calls to the host, and ends the sandbox when its lease was
// not renewed. Package wire describes its API.
//
// It trusts the host side, which alone can reach its control socket, and nothing inside. Where users are separate, it has a user
// id of its own; processes of the agent cannot signal or trace it, and it reads and writes files with the rights of the user
// that they belong to. Where they are not, processes of the agent may signal it and race it for files. In both cases they may
// fill its disk or use up the process limit, and it survives that. It is the last that the OOM killer picks.
package sandboxd
