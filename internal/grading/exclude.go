package grading

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"mvdan.cc/sh/v3/pattern"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// maxExcludedBytes bounds what is read of an artifact to leave it out.
const maxExcludedBytes = 16 << 30

// excluding is a tar without the entries that patterns name, and without hard links to these.
type excluding struct {
	excluded *regexp.Regexp
	from     *tar.Reader
	to       *tar.Writer

	// what to has written and nobody has read
	buffer bytes.Buffer
	done   bool

	// bytes that may still be left out
	left int64
}

// exclude leaves entries out of a tar. A pattern means what it does for tar's option --exclude: it matches a file or folder
// of its name at any depth, or a part of a path, and all below it; its wildcards match slashes too.
func exclude(content io.Reader, patterns []string) (io.Reader, error) {
	if len(patterns) == 0 {
		return content, nil
	}

	var texts []string

	for _, p := range patterns {
		text, err := pattern.Regexp(strings.TrimSuffix(p, "/"), 0)
		if err != nil {
			return nil, fmt.Errorf("leave out %q: %w", p, err)
		}

		texts = append(texts, "(?:"+text+")")
	}

	excluded, err := regexp.Compile("(?:^|/)(?:" + strings.Join(texts, "|") + ")(?:/|$)")
	if err != nil {
		return nil, fmt.Errorf("leave out %q: %w", patterns, err)
	}

	e := &excluding{excluded: excluded, from: tar.NewReader(content), left: maxExcludedBytes}
	e.to = tar.NewWriter(&e.buffer)

	return e, nil
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

		isLink := h.Typeflag == tar.TypeLink
		if !e.excluded.MatchString(h.Name) && !(isLink && e.excluded.MatchString(h.Linkname)) {
			return e.to.WriteHeader(h)
		}

		// a file with holes may claim any size
		if e.left -= h.Size; e.left < 0 {
			return fault.New(fault.OutOfDisk, "what is left out of the artifacts has more than %d bytes", int64(maxExcludedBytes))
		}
	}
}
