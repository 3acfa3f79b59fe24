package process

import (
	"fmt"
	"net/netip"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// maxDescriptors bounds the descriptors inspected for one lookup. A process with more is not found, which
// affects only itself.
const maxDescriptors = 20_000

// Origin returns the name of the process that holds the client's end of a connection, as wire.OriginHeader has it; "":
// no named process and none of their descendants.
func (t *Table) Origin(client, server netip.AddrPort) string {
	inode, err := clientInode(client, server)
	if err != nil || inode == 0 {
		return ""
	}
	// a process may call before its start is recorded
	t.starting.Lock()
	running := t.running()
	t.starting.Unlock()

	budget := maxDescriptors
	for _, p := range running {
		if t.holds(p, p.pid, inode, &budget) {
			return p.name + t.suffixOf(p, p.pid)
		}
	}

	all, err := procTable()
	if err != nil {
		return ""
	}

	for _, p := range running {
		for _, pid := range tree(all, p.pid, true) {
			if pid != p.pid && t.holds(p, pid, inode, &budget) {
				return p.name + t.suffixOf(p, pid)
			}
		}
	}

	return ""
}

// Owned returns an error unless the named process itself holds every socket that listens on the port.
func (t *Table) Owned(port uint16, name string) error {
	p, err := t.Get(name)
	if err != nil {
		return err
	}

	if !p.Running() {
		return fault.New(fault.AgentFailed, "process %q has ended", name)
	}

	found, err := listeners(port)
	if err != nil {
		return err
	}

	if len(found) == 0 {
		return fault.New(fault.Unavailable, "no process listens on port %d", port)
	}

	for _, l := range found {
		budget := maxDescriptors
		if !t.holds(p, p.pid, l.inode, &budget) {
			return fault.New(fault.AgentFailed, "process %q does not listen on port %d: another process does",
				name, port)
		}
	}

	return nil
}

func (t *Table) running() []*Process {
	var list []*Process

	for _, p := range t.all() {
		if p.Running() {
			list = append(list, p)
		}
	}

	return list
}

// holds reports whether the process pid, of the user of p, has the socket open. It looks with that user's
// rights: a process that hides its descriptors from its own user holds nothing.
func (t *Table) holds(p *Process, pid int, inode uint64, budget *int) (found bool) {
	user, err := t.Users.Find(p.user)
	if err != nil {
		return false
	}

	at := holding{pid, inode}
	_ = t.Users.Run(user, func() {
		var descriptor string
		if descriptor, found = findSocket(at, t.seen.of(at), budget); found {
			t.seen.put(at, descriptor)
		}
	})

	return found
}

// holding is a pair of a socket and a process.
type holding struct {
	pid   int
	inode uint64
}

// descriptors caches the descriptors of found sockets. A process keeps most of its sockets at the same
// descriptor, so one readlink replaces one for each of its descriptors.
type descriptors struct {
	mu sync.Mutex
	at map[holding]string
}

// maxSeen bounds the cache: processes of the sandbox may make any number of connections.
const maxSeen = 256

func (d *descriptors) of(h holding) string {
	d.mu.Lock()
	defer d.mu.Unlock()

	return d.at[h]
}

func (d *descriptors) put(h holding, descriptor string) {
	d.mu.Lock()
	defer d.mu.Unlock()

	if len(d.at) >= maxSeen {
		clear(d.at)
	}

	d.at[h] = descriptor
}

// findSocket returns the process's descriptor of the socket. It tries first, if that is not "", before all others.
func findSocket(h holding, first string, budget *int) (descriptor string, found bool) {
	folder, want, buf := fmt.Sprintf("%d/fd", h.pid), fmt.Sprintf("socket:[%d]", h.inode), make([]byte, 64)
	if first != "" {
		if n, err := readlinkProc(folder+"/"+first, buf); err == nil && string(buf[:n]) == want {
			return first, true
		}
	}

	dir, err := openProc(folder)
	if err != nil {
		return "", false
	}
	defer dir.Close()

	for *budget > 0 {
		names, err := dir.Readdirnames(256)
		for _, name := range names {
			n, err := unix.Readlinkat(int(dir.Fd()), name, buf)
			if err == nil && string(buf[:n]) == want {
				return name, true
			}
		}

		if *budget -= len(names); err != nil {
			return "", false
		}
	}

	return "", false
}
