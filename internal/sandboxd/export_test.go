package sandboxd

// Exported for tests: the parts whose input comes from inside the sandbox or from an archive, and the ring of output, which
// are worth more cases than can be had through processes.
var ParseStat = parseStat

// Keep is how much of each end of a stream is kept.
const Keep = keep

// Output is the log of one stream.
type Output = output

// Read reads from offset.
func (o *output) Read(offset int64, limit int) ([]byte, int64) { return o.read(offset, limit) }

// Entry is a line of the process table.
type Entry = procEntry

// MakeEntry makes one.
func MakeEntry(pid, ppid, session int, zombie bool) Entry {
	return procEntry{pid, ppid, session, zombie}
}

// Tree picks what a kill of root takes.
var Tree = tree

// Unpack unpacks a tar below the folder.
func Unpack(folder string, limit int64, r interface{ Read([]byte) (int, error) }) error {
	root, err := openDir(folder)
	if err != nil {
		return err
	}
	defer root.close()
	u := &unpacker{root: root, meter: newMeter(limit)}
	defer u.close()
	return u.unpack(r)
}
