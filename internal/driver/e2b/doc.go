// Package e2b runs sandboxes in virtual machines of E2B, or of a service with its API.
//
// A sandbox is one machine, made from a template. sandboxd is uploaded into it and started by envd, E2B's
// daemon in the machine, as the first process of new namespaces; see package nested. Each control
// connection is a process of envd, `sandboxd attach`, whose streams carry it.
//
// The control plane keeps all state: a machine has the sandbox's id, the owner and the rest in its
// metadata. The owner is the data folder of a host, so that hosts may share an account. The control plane
// ends a machine at its timeout, which follows the lease.
package e2b
