package result

import (
	"archive/tar"
	"bytes"
	"context"
	"io"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/store"
	"github.com/rolloutd/rolloutd/internal/text"
)

const (
	// texts in a Result
	maxFiles = 64

	// bound of each file
	maxFileChars = 8000

	// names of further files
	maxExtra = 1000

	// entries that are read: an agent can make millions
	maxScanned = 50000
)

// addFiles adds the text files of the workdir to the result, from the stored home. It reads only regular
// files of the tar: host tools never run on an agent's files, and no link is followed.
func (c *Composer) addFiles(ctx context.Context, res *rollout.Result) error {
	r, err := c.Store.Reader(ctx, c.key(store.Home))
	if err != nil {
		return fault.Ignore(err, fault.NotFound)
	}
	defer r.Close()

	if err := filesOf(r, res.Files, &res.FilesExtra); err != nil {
		c.Logger.WarnContext(ctx, "workspace unreadable", "error", err)
	}

	res.WorkdirFiles = res.Files
	slices.Sort(res.FilesExtra)

	return nil
}

// filesOf sorts a home's tar into texts and names.
func filesOf(r io.Reader, texts map[string]string, extra *[]string) error {
	archive := tar.NewReader(r)
	for range maxScanned {
		h, err := archive.Next()
		if err == io.EOF {
			return nil
		}

		if err != nil {
			return err
		}

		name := path.Join(rollout.Home, path.Clean("/"+h.Name))
		if h.Typeflag != tar.TypeReg || !strings.HasPrefix(name, rollout.Workdir+"/") || isToolFile(name) {
			continue
		}

		if text, ok := textOf(archive); ok && len(texts) < maxFiles {
			texts[name] = text
		} else if len(*extra) < maxExtra {
			*extra = append(*extra, strings.ToValidUTF8(name, "?"))
		}
	}

	return nil
}

// isToolFile reports whether a file belongs to a tool and not to the work.
func isToolFile(name string) bool {
	for dir := range strings.SplitSeq(path.Dir(name), "/") {
		switch dir {
		case ".git", "node_modules", "__pycache__", ".venv", ".pytest_cache":
			return true
		}
	}

	return false
}

// textOf is the beginning of a file, if it is text.
func textOf(r io.Reader) (string, bool) {
	raw, err := io.ReadAll(io.LimitReader(r, maxFileChars*utf8.UTFMax))
	if err != nil || bytes.IndexByte(raw, 0) >= 0 {
		return "", false
	}
	// the last character may have been cut
	if len(raw) == maxFileChars*utf8.UTFMax {
		for i := 0; i < utf8.UTFMax && !utf8.Valid(raw); i++ {
			raw = raw[:len(raw)-1]
		}
	}

	if !utf8.Valid(raw) {
		return "", false
	}

	return text.Head(string(raw), maxFileChars), true
}
