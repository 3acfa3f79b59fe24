package cli

import (
	"fmt"
	"io"
)

// ListedTask writes a line about a task of a set: the begin of its digest, and the first line of its instruction or why it is
// broken.
func ListedTask(w io.Writer, name, digest, about string) error {
	_, err := fmt.Fprintf(w, "%-28s %-12.12s %s\n", plain(name), digest, short(plain(about), maxLine))

	return err
}

// Files writes names and sizes in bytes, one a line.
func Files(w io.Writer, names []string, files map[string]string) {
	for _, name := range names {
		fmt.Fprintf(w, "%9d  %s\n", len(files[name]), plain(name))
	}
}
