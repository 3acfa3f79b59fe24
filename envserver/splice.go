package envserver

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"runtime"
	"strconv"
	"sync"

	"github.com/rolloutd/rolloutd/envserver/internal/tools"
)

// splicer writes the replies of the MCP library, which encodes the whole reply for each client. A tool's result may have megabytes and be
// returned to hundreds of clients, so the library gets a mark instead, which is replaced by the text when the reply is written.
type splicer struct {
	http.ResponseWriter
	mark []byte // prefix of the marks of this request; random, so that no text contains it

	mu    sync.Mutex
	texts []*tools.Text // by the number at the end of their marks
}

// markDigits is the length of the number that ends a mark.
const markDigits = 8

type splicerKey struct{}

// withSplicer returns a writer that replaces the marks in r's answer.
func withSplicer(w http.ResponseWriter, r *http.Request) (http.ResponseWriter, *http.Request) {
	s := &splicer{ResponseWriter: w, mark: []byte(rand.Text())}
	return s, r.WithContext(context.WithValue(r.Context(), splicerKey{}, s))
}

// marked returns the mark of a text.
func marked(ctx context.Context, text *tools.Text) string {
	s, _ := ctx.Value(splicerKey{}).(*splicer)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.texts = append(s.texts, text)
	return fmt.Sprintf("%s%0*d", s.mark, markDigits, len(s.texts)-1)
}

// Unwrap is for http.ResponseController.
func (s *splicer) Unwrap() http.ResponseWriter { return s.ResponseWriter }

// Write writes a whole reply: the library does not write parts.
func (s *splicer) Write(p []byte) (int, error) {
	for rest := p; ; {
		before, after, found := bytes.Cut(rest, s.mark)
		if _, err := s.ResponseWriter.Write(before); err != nil || !found {
			return len(p), err
		}
		if err := s.put(after[:markDigits]); err != nil {
			return 0, err
		}
		rest = after[markDigits:]
	}
}

// put writes the text of a mark.
func (s *splicer) put(number []byte) error {
	i, err := strconv.Atoi(string(number))
	if err != nil {
		return err
	}
	s.mu.Lock()
	text := s.texts[i]
	s.mu.Unlock()
	_, err = s.ResponseWriter.Write(text.Quoted)
	runtime.KeepAlive(text) // so that concurrent callers share it
	return err
}
