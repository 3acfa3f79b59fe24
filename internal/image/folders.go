package image

import (
	"archive/tar"
	"path"
)

// folders has the headers of a layer's folders, which get their final mode and time at the end. Forgetting
// a folder forgets all below it; the cost is proportional to what is forgotten, since a hostile layer may
// replace the same folder again and again.
type folders struct {
	headers map[string]*tar.Header
	known   map[string]bool

	// the known folders in a folder, some of them more than once
	below map[string][]string
}

func newFolders() folders {
	return folders{headers: map[string]*tar.Header{}, known: map[string]bool{}, below: map[string][]string{}}
}

// addFolder keeps the header of a folder.
func (f folders) addFolder(name string, h *tar.Header) {
	f.headers[name] = h
	for at := name; at != "." && !f.known[at]; at = path.Dir(at) {
		f.known[at] = true
		f.below[path.Dir(at)] = append(f.below[path.Dir(at)], at)
	}
}

// forget drops a folder with all below it.
func (f folders) forget(name string) {
	for todo := []string{name}; len(todo) > 0; {
		last := todo[len(todo)-1]
		todo = append(todo[:len(todo)-1], f.below[last]...)
		delete(f.headers, last)
		delete(f.known, last)
		delete(f.below, last)
	}
}
