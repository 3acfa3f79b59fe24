// Package e2b makes sandboxes in virtual machines of E2B, or of a service with its API.
//
// A sandbox is one machine, made of a template. sandboxd is pushed into it as a file and started by envd, E2B's daemon in the machine, as the first
// process of namespaces of its own; see package enclose. Each control connection is a process of envd, `sandboxd attach`, whose streams carry it.
//
// The control plane keeps all state: a machine has the sandbox's id, the owner and what else is known of it in its metadata. The owner is the data
// folder of a host, so that hosts may share an account. A machine ends at the timeout that the control plane keeps, which follows the lease.
package e2b
