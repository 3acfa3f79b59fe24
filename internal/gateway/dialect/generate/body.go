package generate

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/rolloutd/rolloutd/internal/intake"
	"github.com/rolloutd/rolloutd/internal/rawjson"
)

// Body reads a whole reply of /generate and returns it as a reply of completions.
type Body struct {
	io.ReadCloser        // of the engine
	Sent          []byte // the completion request
	Limit         int64  // bytes of the body
	Memory        intake.Share

	whole   *bytes.Reader
	err     error
	release func() // releases the memory; nil: none reserved
}

// weight bounds the memory of a reply's byte after decoding and translation: a token in 6 bytes has three values, each a slice.
const weight = 32

// Close implements io.Closer.
func (b *Body) Close() error {
	if b.release != nil {
		b.release()
	}
	return b.ReadCloser.Close()
}

// Read implements io.Reader. Its error is that of the connection, or describes a malformed reply. An error object is returned unchanged.
func (b *Body) Read(p []byte) (int, error) {
	if b.whole == nil && b.err == nil {
		b.translate()
	}
	if b.err != nil {
		return 0, b.err
	}
	return b.whole.Read(p)
}

func (b *Body) translate() {
	raw, release, err := b.Memory.Weighing(weight).Read(b.ReadCloser, b.Limit)
	b.release = release
	if large := new(intake.TooLargeError); errors.As(err, &large) {
		err = fmt.Errorf("reply of %s: %w", Path, err)
	}
	if err == nil && len(rawjson.MemberOf(raw, "error")) == 0 {
		raw, err = Reply(b.Sent, raw)
	}
	b.whole, b.err = bytes.NewReader(raw), err
}
