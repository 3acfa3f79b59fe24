package nomad

import (
	"fmt"
	"io"
	"net/http"
)

// bounded fails a response that is longer than maxAnswer, since the client would read all of it into memory.
type bounded struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := b.next.RoundTrip(r)
	if err == nil {
		res.Body = &boundedBody{ReadCloser: res.Body, left: maxAnswer}
	}

	return res, err
}

type boundedBody struct {
	io.ReadCloser
	left int64
}

// Read implements io.Reader.
func (b *boundedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return 0, fmt.Errorf("the answer is longer than %d bytes", int64(maxAnswer))
	}

	return n, err
}
