// Package local creates sandboxes on this machine with bubblewrap, without a container engine; an image is optional.
//
// A sandbox has namespaces of its own for users, processes, mounts, network (only a loopback device), IPC,
// host name and cgroups; a read-only root file system made of the host's /usr or of an image folder; a
// generated /etc; tmpfs of limited size for the home, /tmp and /dev/shm (of an OCI image the first two are the
// image's); a system call filter; no
// capabilities; limits by cgroup. sandboxd is its first process and listens on a socket that exists only on
// the host, <Dir>/<id>/control.sock.
//
// As root, each sandbox gets a block of unused user ids of the host: one for sandboxd, one for the agent,
// one for the verifier. bwrap starts as the first of them, never as root: bwrap run by root would map the
// sandbox's user to the host's root. As any other user, sandboxd, agent and verifier of every sandbox share
// the caller's user id, and there are no cgroups, so no limits on memory and CPU. Check reports these
// weaker guarantees.
//
// A sandbox outlives the process that created it. Any process with the same Dir finds it, and its lease
// ends it. List removes what a dead one leaves on the host (a folder, empty cgroups). A lock reserves its
// user ids; the kernel releases it with the sandbox's last process.
//
// Before the first sandbox a probe runs in one and tries what must be impossible; if anything succeeds,
// Create refuses. A good result is stored in Dir and is valid until the kernel, bwrap or sandboxd change.
package local
