package generate

import (
	"bytes"
	"fmt"
	"io"

	"github.com/rolloutd/rolloutd/internal/rawjson"
)

// Body reads the body of a reply of /generate to its end and gives it as one of completions.
type Body struct {
	io.ReadCloser        // of the engine
	Sent          []byte // the completion that was asked for
	Limit         int64  // bytes of the body

	whole *bytes.Reader
	err   error
}

// Read implements io.Reader. Its error is that of the connection, or says what is wrong with the reply; an error object passes as it is.
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
	raw, err := io.ReadAll(io.LimitReader(b.ReadCloser, b.Limit+1))
	if err == nil && int64(len(raw)) > b.Limit {
		err = fmt.Errorf("reply of %s: larger than %d bytes", Path, b.Limit)
	}
	if err == nil && len(rawjson.MemberOf(raw, "error")) == 0 {
		raw, err = Reply(b.Sent, raw)
	}
	b.whole, b.err = bytes.NewReader(raw), err
}
