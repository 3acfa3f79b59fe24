// Package process starts the processes of a sandbox, keeps their output and exit status, and ends them. It
// also finds the process that holds a socket, and starts programs for run-as-agent.
package process
