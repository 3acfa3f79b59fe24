package grading

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"path"
	"slices"
	"strings"
)

// excluding is a tar without the entries that patterns name, and without hard links to these.
type excluding struct {
	patterns []string
	from     *tar.Reader
	to       *tar.Writer

	// what to has written and nobody has read
	buffer bytes.Buffer
	done   bool
}

// exclude leaves entries out of a tar. A pattern means what it does for tar's option --exclude: it matches a file or folder
// of its name at any depth, or a part of a path, and all below it.
func exclude(content io.Reader, patterns []string) io.Reader {
	if len(patterns) == 0 {
		return content
	}

	e := &excluding{patterns: patterns, from: tar.NewReader(content)}
	e.to = tar.NewWriter(&e.buffer)

	return e
}

// Read implements io.Reader.
func (e *excluding) Read(p []byte) (int, error) {
	for e.buffer.Len() == 0 {
		if e.done {
			return 0, io.EOF
		}

		if err := e.more(); err != nil {
			return 0, err
		}
	}

	return e.buffer.Read(p)
}

// more writes a part of the current entry, or the next header.
func (e *excluding) more() error {
	const part = 64 << 10
	if _, err := io.CopyN(e.to, e.from, part); !errors.Is(err, io.EOF) {
		return err
	}

	for {
		h, err := e.from.Next()
		if errors.Is(err, io.EOF) {
			e.done = true
			return e.to.Close()
		}

		if err != nil {
			return err
		}

		if !e.excludes(h.Name) && !(h.Typeflag == tar.TypeLink && e.excludes(h.Linkname)) {
			return e.to.WriteHeader(h)
		}
	}
}

// excludes reports whether a pattern matches an entry or a folder above it, from any folder on.
func (e *excluding) excludes(name string) bool {
	parts := strings.Split(path.Clean(name), "/")

	for end := 1; end <= len(parts); end++ {
		for begin := range end {
			if slices.ContainsFunc(e.patterns, func(p string) bool { return matchesPath(p, strings.Join(parts[begin:end], "/")) }) {
				return true
			}
		}
	}

	return false
}

// matchesPath reports whether a pattern matches a path. Its wildcards match slashes too.
func matchesPath(pattern, name string) bool {
	const slash = "\x00"

	pattern = strings.ReplaceAll(strings.TrimSuffix(pattern, "/"), "/", slash)
	ok, _ := path.Match(pattern, strings.ReplaceAll(name, "/", slash))

	return ok
}
