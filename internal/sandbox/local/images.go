package local

import (
	"os"
	"path/filepath"
	"regexp"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// images finds root file systems by name. A spec comes from a client, so it can name what the operator put into the folder,
// and never a path.
type images struct {
	standard string // "": made of the host
	dir      string
	name     *regexp.Regexp
}

func newImages(standard, dir string) (images, error) {
	i := images{name: regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]*$`)}
	for _, p := range []struct{ from, to *string }{{&standard, &i.standard}, {&dir, &i.dir}} {
		if *p.from == "" {
			continue
		}
		path, err := existing(*p.from)
		if err != nil {
			return i, fault.Wrap(fault.Invalid, err, "image folder")
		}
		*p.to = path
	}
	return i, nil
}

// find returns the folder of the image, "" for one made of the host.
func (i images) find(name string) (string, error) {
	if name == "" {
		return i.standard, nil
	}
	if i.dir == "" || !i.name.MatchString(name) {
		return "", fault.Field("image", "%q is not known; leave it empty for the default", name)
	}
	path := filepath.Join(i.dir, name)
	if st, err := os.Stat(path); err != nil || !st.IsDir() {
		return "", fault.Field("image", "%q is not a folder in the images folder", name)
	}
	return filepath.EvalSymlinks(path)
}
