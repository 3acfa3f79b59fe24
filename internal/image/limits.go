package image

import "cmp"

// Limits bounds what one image may unpack to.
type Limits struct {
	Layers  int   // default 128
	Entries int   // files, folders, links and whiteouts of all layers; default 500,000
	Bytes   int64 // content of all files; default 32 GiB
	Depth   int   // folders within each other; default 100
}

func (l Limits) withDefaults() Limits {
	return Limits{
		Layers: cmp.Or(l.Layers, 128), Entries: cmp.Or(l.Entries, 500_000),
		Bytes: cmp.Or(l.Bytes, 32<<30), Depth: cmp.Or(l.Depth, 100),
	}
}

// maxDocument bounds a manifest, a configuration and any other answer of a registry that is not a layer, in bytes.
const maxDocument = 8 << 20

// maxID is the highest user or group id that a sandbox maps; files of higher ones belong to overflowID.
const (
	maxID      = 65535
	overflowID = 65534
)
