package process

// Exported for tests: the parts whose input comes from inside the sandbox, and the ring of output, which are worth more cases
// than can be had through processes.
var ParseStat = parseStat

// Keep is how much of each end of a stream is kept.
const Keep = maxKeep

// Entry is a line of the process table.
type Entry = procEntry

// MakeEntry makes one.
func MakeEntry(pid, ppid, session int, zombie bool) Entry {
	return procEntry{pid, ppid, session, zombie}
}

// Tree picks what a kill of root takes.
var Tree = tree

// Two ways to find a connection's client and the listeners of a port: the kernel's socket diagnosis, and /proc/net.
var (
	Connected     = connected
	ReadClient    = readClient
	Listening     = listening
	ReadListeners = readListeners
)
