package upstream

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/rolloutd/rolloutd/internal/input/membudget"
	"github.com/rolloutd/rolloutd/internal/rawjson"
)

// generateBody reads a whole reply of /generate and returns it as a reply of completions.
type generateBody struct {
	// the body that the engine sends
	io.ReadCloser

	// the completion request
	Sent []byte

	// bytes of the body
	Limit  int64
	Memory membudget.Share

	reader *bytes.Reader
	err    error

	// releases the memory; nil: none reserved
	release func()
}

// weight bounds the memory of a reply's byte after decoding and translation: a token in 6 bytes has three
// values, each a slice.
const weight = 32

// Close implements io.Closer.
func (b *generateBody) Close() error {
	if b.release != nil {
		b.release()
	}

	return b.ReadCloser.Close()
}

// Read implements io.Reader. Its error is that of the connection, or describes a malformed reply. An error
// object is returned unchanged.
func (b *generateBody) Read(p []byte) (int, error) {
	if b.reader == nil && b.err == nil {
		b.translate()
	}

	if b.err != nil {
		return 0, b.err
	}

	return b.reader.Read(p)
}

func (b *generateBody) translate() {
	raw, release, err := b.Memory.Weighing(weight).Read(b.ReadCloser, b.Limit)
	b.release = release

	if large := new(membudget.TooLargeError); errors.As(err, &large) {
		err = fmt.Errorf("reply of %s: %w", generatePath, err)
	}

	if err == nil && len(rawjson.MemberOf(raw, "error")) == 0 {
		raw, err = completionOfGenerate(b.Sent, raw)
	}

	b.reader, b.err = bytes.NewReader(raw), err
}
