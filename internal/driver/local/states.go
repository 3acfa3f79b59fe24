package local

import (
	"maps"
	"path/filepath"
	"slices"
	"sync"

	"golang.org/x/sys/unix"
)

// states caches states for List, until their files change: a host of a thousand sandboxes lists them twice
// for each new one. It is safe for concurrent use; returned states are shared and read-only.
type states struct {
	mu sync.Mutex

	// by folder
	byFolder map[string]knownState
}

type knownState struct {
	file  stamp
	state state
}

// stamp identifies the contents of a state file: state.write replaces the file.
type stamp struct {
	inode    uint64
	size     int64
	modified unix.Timespec
}

// read is readState with the cache.
func (k *states) read(dir string) (state, error) {
	var st unix.Stat_t
	if unix.Stat(filepath.Join(dir, stateFile), &st) != nil {
		// which handles the error
		return readState(dir)
	}

	file := stamp{st.Ino, st.Size, st.Mtim}

	k.mu.Lock()
	known, ok := k.byFolder[dir]
	k.mu.Unlock()

	if ok && known.file == file {
		return known.state, nil
	}

	s, err := readState(dir)
	if err != nil {
		return s, err
	}

	k.mu.Lock()
	defer k.mu.Unlock()

	if k.byFolder == nil {
		k.byFolder = map[string]knownState{}
	}

	k.byFolder[dir] = knownState{file, s}

	return s, nil
}

// retainOnly removes all folders except these.
func (k *states) retainOnly(folders []string) {
	k.mu.Lock()
	defer k.mu.Unlock()

	if len(k.byFolder) <= len(folders) {
		// there are no others
		return
	}

	maps.DeleteFunc(k.byFolder, func(dir string, _ knownState) bool { return !slices.Contains(folders, dir) })
}
