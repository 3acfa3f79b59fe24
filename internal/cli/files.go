package cli

import (
	"fmt"
	"io"
)

// Files writes names and sizes in bytes, one a line.
func Files(w io.Writer, names []string, files map[string]string) {
	for _, name := range names {
		fmt.Fprintf(w, "%9d  %s\n", len(files[name]), plain(name))
	}
}
