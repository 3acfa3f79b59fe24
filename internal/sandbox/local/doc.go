// Package local makes sandboxes on this machine with bubblewrap, without a container engine and without an image.
//
// What a sandbox is: namespaces of its own for users, processes, mounts, network (a loopback device and nothing else), IPC,
// host name and cgroups; a read-only root file system made of the host's /usr or of an image folder; a made-up /etc; sized
// tmpfs for the home, /tmp and /dev/shm; a system call filter; no capabilities; limits by cgroup. sandboxd is its first
// process and listens on a socket that exists on the host alone, <Dir>/<id>/control.sock.
//
// Run by root, each sandbox gets a user id of the host that nothing else has, before bwrap starts: bwrap run by root would map
// the sandbox's user to the host's root. Run by anybody else, the sandboxes share the caller's user id, and have no
// cgroups, so no bound on memory and CPU: fewer guarantees, which Check tells.
//
// A sandbox belongs to nobody: it lives on when its creator dies, any process with the same Dir finds it, and its lease is what
// ends it. What a dead one leaves behind on the host (a folder, empty cgroups) is swept by List. Its user id is held by a lock
// that the kernel drops with its last process.
//
// Before the first sandbox a probe runs in one and tries what must not be possible; if anything was, Create refuses. The
// verdict is kept in Dir until kernel, bwrap or sandboxd change.
package local
