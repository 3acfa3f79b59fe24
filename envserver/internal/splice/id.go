package splice

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/rolloutd/rolloutd/internal/rawjson"
)

// maxNumber bounds an id that is kept as it is, in bytes: the answer repeats it.
const maxNumber = 1000

// KeepID makes the answer to a request have its id as the client wrote it: the library reads a number as a
// whole one of 53 bits. It replaces such an id by a mark, and the mark in the answer by the id.
func KeepID(w http.ResponseWriter, body []byte, id json.RawMessage) (http.ResponseWriter, []byte) {
	f, err := strconv.ParseFloat(string(id), 64)
	if err != nil || len(id) > maxNumber || strconv.FormatInt(int64(f), 10) == string(id) {
		// a string, or a number that the library keeps
		return w, body
	}

	request, err := rawjson.ParseObject(body)
	if err != nil {
		return w, body
	}

	mark := rawjson.Quote(rand.Text())
	request.Set("id", mark)

	return idWriter{w, mark, id}, request.Bytes()
}

// idWriter replaces the mark of an id in an answer.
type idWriter struct {
	http.ResponseWriter
	mark, id []byte
}

// Write writes a whole reply: the library does not write parts.
func (w idWriter) Write(p []byte) (int, error) {
	if _, err := w.ResponseWriter.Write(bytes.Replace(p, w.mark, w.id, 1)); err != nil {
		return 0, err
	}

	return len(p), nil
}

// Unwrap is for http.ResponseController.
func (w idWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
