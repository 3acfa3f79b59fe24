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

// splicer writes the replies of the MCP library, which encodes all of a reply anew for each client. What a tool returned may be
// megabytes that hundreds are given at once, so the library gets a mark in its place, and the text is put there as the reply
// is written.
type splicer struct {
	http.ResponseWriter
	mark []byte // begins every mark of this request; random, so that no text contains it

	mu    sync.Mutex
	texts []*tools.Text // by what ends their marks
}

// markDigits is the length of the number that ends a mark.
const markDigits = 8

type splicerKey struct{}

// withSplicer has the texts of r's answer put in by the returned writer.
func withSplicer(w http.ResponseWriter, r *http.Request) (http.ResponseWriter, *http.Request) {
	s := &splicer{ResponseWriter: w, mark: []byte(rand.Text())}
	return s, r.WithContext(context.WithValue(r.Context(), splicerKey{}, s))
}

// marked returns what stands for a text until the answer is written.
func marked(ctx context.Context, text *tools.Text) string {
	s, _ := ctx.Value(splicerKey{}).(*splicer)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.texts = append(s.texts, text)
	return fmt.Sprintf("%s%0*d", s.mark, markDigits, len(s.texts)-1)
}

// Unwrap is for http.ResponseController.
func (s *splicer) Unwrap() http.ResponseWriter { return s.ResponseWriter }

// Write takes whole replies: the library writes no other.
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
	runtime.KeepAlive(text) // so that callers that come while it is being read share it
	return err
}
