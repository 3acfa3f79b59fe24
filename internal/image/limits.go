package image

import (
	"cmp"
	"sync/atomic"
)

// Limits bounds what one image may unpack to.
type Limits struct {
	// default 128
	Layers int

	// files, folders, links and whiteouts of all layers; default 500,000
	Entries int

	// content of all files; default 32 GiB
	Bytes int64

	// folders within each other; default 100
	Depth int
	// Folders bounds the names and extended attributes of folders, which are in memory until their layer
	// ends, in bytes; default 64 MiB.
	Folders int64
}

func (l Limits) withDefaults() Limits {
	return Limits{
		Layers: cmp.Or(l.Layers, 128), Entries: cmp.Or(l.Entries, 500_000),
		Bytes: cmp.Or(l.Bytes, 32<<30), Depth: cmp.Or(l.Depth, 100), Folders: cmp.Or(l.Folders, 64<<20),
	}
}

// budget counts the usage of one image's limits. Layers that are unpacked at the same time share it.
type budget struct {
	Limits
	entries, bytes, folders atomic.Int64
}

func (b *budget) takeEntry() bool { return b.entries.Add(1) <= int64(b.Entries) }

func (b *budget) takeBytes(n int64) bool { return n >= 0 && b.bytes.Add(n) <= b.Bytes }

func (b *budget) takeFolder(n int) bool { return b.folders.Add(int64(n)) <= b.Folders }

// maxDocument bounds a manifest, a configuration and any other answer of a registry that is not a layer, in bytes.
const maxDocument = 8 << 20

// maxID is the highest user or group id that a sandbox maps; files of higher ones belong to overflowID.
const (
	maxID      = 65535
	overflowID = 65534
)
