// Package local makes sandboxes on this machine with bubblewrap, without a container engine and without an image.
//
// What a sandbox is: namespaces of its own for users, processes, mounts, network (a loopback device and nothing else), IPC,
// host name and cgroups; a read-only root file system made of the host's /usr or of an image folder; a made-up /etc; sized
// tmpfs for the home, /tmp and /dev/shm; a system call filter; no capabilities; limits by cgroup. sandboxd is its first
// process and listens on a socket that exists on the host alone, <Dir>/<id>/control.sock.
//
// Run by root, each sandbox gets a block of user ids of the host that nothing else has: one for sandboxd, one for the agent, one
// for the verifier. bwrap starts as the first of them, never as root: bwrap run by root would map the sandbox's user to the
// host's root. Run by any other user, the sandboxes share the caller's user id, for sandboxd, agent and verifier alike, and have
// no cgroups, so no bound on memory and CPU. Check reports these weaker guarantees.
//
// A sandbox outlives the process that made it. Any process with the same Dir finds it, and its lease ends it. List removes what a
// dead one leaves on the host (a folder, empty cgroups). Its user ids are held by a lock that the kernel drops with its last
// process.
//
// Before the first sandbox a probe runs in one and tries what must not be possible; if anything was, Create refuses. A good
// result is kept in Dir until kernel, bwrap or sandboxd change.
package local
