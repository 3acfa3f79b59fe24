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

// textWriter writes the texts of tools into a reply of the MCP library, which encodes the whole reply for each client. A
// text may have megabytes and be returned to hundreds of clients, so the library gets a mark instead, which is replaced
// by the text when the reply is written.
type textWriter struct {
	http.ResponseWriter

	// prefix of the marks of this request; random, so that no text contains it
	mark []byte

	mu sync.Mutex

	// by the number at the end of their marks
	texts []*tools.Text
}

// markDigits is the length of the number that ends a mark.
const markDigits = 8

type textWriterKey struct{}

// withTexts returns a writer that replaces the marks in r's answer.
func withTexts(w http.ResponseWriter, r *http.Request) (http.ResponseWriter, *http.Request) {
	s := &textWriter{ResponseWriter: w, mark: []byte(rand.Text())}
	return s, r.WithContext(context.WithValue(r.Context(), textWriterKey{}, s))
}

// markText returns the mark of a text in the answer to the request of ctx, which withTexts returned.
func markText(ctx context.Context, text *tools.Text) string {
	s, _ := ctx.Value(textWriterKey{}).(*textWriter)
	s.mu.Lock()
	defer s.mu.Unlock()

	s.texts = append(s.texts, text)

	return fmt.Sprintf("%s%0*d", s.mark, markDigits, len(s.texts)-1)
}

// Unwrap is for http.ResponseController.
func (s *textWriter) Unwrap() http.ResponseWriter { return s.ResponseWriter }

// Write writes a whole reply: the library does not write parts.
func (s *textWriter) Write(p []byte) (int, error) {
	for rest := p; ; {
		before, after, found := bytes.Cut(rest, s.mark)
		if _, err := s.ResponseWriter.Write(before); err != nil || !found {
			return len(p), err
		}

		if err := s.writeText(after[:markDigits]); err != nil {
			return 0, err
		}

		rest = after[markDigits:]
	}
}

// writeText writes the text of a mark.
func (s *textWriter) writeText(number []byte) error {
	i, err := strconv.Atoi(string(number))
	if err != nil {
		return err
	}

	s.mu.Lock()
	text := s.texts[i]
	s.mu.Unlock()
	_, err = s.ResponseWriter.Write(text.Quoted)
	// so that concurrent callers share it
	runtime.KeepAlive(text)

	return err
}
