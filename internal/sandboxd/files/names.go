package files

import (
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// Names exchanges two names of a folder's tree: what is at or below InFolder in the folder is at or below InTar in its
// tar, and the other way round. Both are relative to the folder; InFolder may be ".", the folder itself, of which a tar
// then has everything below InTar. The zero value changes no name.
type Names struct{ InFolder, InTar string }

// inTar returns the name in the tar for one in the folder.
func (n Names) inTar(name string) string {
	if n.InFolder == "." {
		return path.Join(n.InTar, name)
	}

	return n.exchange(name)
}

// inFolder returns the name in the folder for one in the tar.
func (n Names) inFolder(name string) string {
	if n.InFolder == "." {
		if rest, ok := below(name, n.InTar); ok {
			return path.Clean("./" + rest)
		}

		return name
	}

	return n.exchange(name)
}

func (n Names) exchange(name string) string {
	if n.InFolder == "" {
		return name
	}

	if rest, ok := below(name, n.InFolder); ok {
		return n.InTar + rest
	}

	if rest, ok := below(name, n.InTar); ok {
		return n.InFolder + rest
	}

	return name
}

// below returns what follows the folder in a name at or below it.
func below(name, folder string) (rest string, ok bool) {
	rest, ok = strings.CutPrefix(name, folder)
	return rest, ok && (rest == "" || rest[0] == '/')
}

// visitNames makes a visit of the names in the tar.
func (s *Source) visitNames(v visit) visit {
	return func(d *dir, name, rel string, st *unix.Stat_t) error { return v(d, name, s.names.inTar(rel), st) }
}
