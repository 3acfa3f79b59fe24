package executor

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"

	"github.com/rolloutd/rolloutd/internal/episode"
)

// The answers about artifacts have AgentEnv's members, all of them also if they failed. A failed one has
// status 200, as there.

type listAnswer struct {
	Success   bool            `json:"success" required:"true"`
	Error     string          `json:"error" required:"true" description:"why there is no list"`
	Entries   []episode.Entry `json:"entries" required:"true" nullable:"false"`
	Truncated bool            `json:"truncated" required:"true"`
}

func failedList(err error) any { return listAnswer{Error: err.Error(), Entries: []episode.Entry{}} }

// readAnswer is streamed: its first members are answerHead.
type readAnswer struct {
	Success   bool    `json:"success" required:"true"`
	Error     string  `json:"error" required:"true" description:"why there is no content"`
	Content   string  `json:"content" required:"true"`
	Encoding  string  `json:"encoding" required:"true"`
	Truncated bool    `json:"truncated" required:"true"`
	Bytes     int64   `json:"bytes" required:"true" description:"of the content"`
	FileSize  *int64  `json:"file_size" required:"true" nullable:"true"`
	Path      string  `json:"path" required:"true" description:"of the file without links, relative to the workdir"`
	Mime      *string `json:"mime" required:"true" nullable:"true"`
	SHA256    *string `json:"sha256" required:"true" nullable:"true" description:"of the content, if asked for"`
}

func failedRead(err error) any { return readAnswer{Error: err.Error(), Encoding: "text"} }

// archiveAnswer is streamed: its first members are answerHead.
type archiveAnswer struct {
	Success  bool   `json:"success" required:"true"`
	Error    string `json:"error" required:"true" description:"why there is no archive"`
	Content  string `json:"content" required:"true" description:"names are relative to the workdir"`
	Encoding string `json:"encoding" required:"true"`
	Format   string `json:"format" required:"true"`
	Bytes    int64  `json:"bytes" required:"true"`
	Entries  int    `json:"entry_count" required:"true" description:"its files"`
}

func failedArchive(err error) any {
	return archiveAnswer{Error: err.Error(), Encoding: "base64", Format: "tar.gz"}
}

// answerHead comes before the content of a streamed answer.
const answerHead = `{"success":true,"error":"","content":"`

func beginAnswer(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, answerHead)
}

// endAnswer writes the members of an answer after its content.
func endAnswer(w io.Writer, answer any) {
	whole, err := json.Marshal(answer)

	rest, ok := bytes.CutPrefix(whole, []byte(answerHead))
	if err != nil || !ok {
		panic(http.ErrAbortHandler)
	}

	_, _ = w.Write(rest)
}

// encode copies r as base64. A failure aborts the answer, so that no client takes a part for the whole.
func encode(w io.Writer, r io.Reader) int64 {
	out := base64.NewEncoder(base64.StdEncoding, w)

	n, err := io.Copy(out, r)
	if err == nil {
		err = out.Close()
	}

	if err != nil {
		panic(http.ErrAbortHandler)
	}

	return n
}
