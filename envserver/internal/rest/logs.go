package rest

import (
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/rolloutd/rolloutd/envserver/internal/api"
	"github.com/rolloutd/rolloutd/envserver/internal/httpio"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

func (a *API) proxyLog(w http.ResponseWriter, r *http.Request) {
	res, err := a.head(r)
	if err != nil {
		httpio.WriteRefusal(w, err)
		return
	}

	w.Header().Set("Content-Type", string(textPlain))
	// the client may be gone
	_, _ = io.WriteString(w, res.ProxyLogTail)
}

func (a *API) agentLog(w http.ResponseWriter, r *http.Request) {
	log, err := a.blobs(r, "agent log", "agent")
	writeLog(w, log, err)
}

func (a *API) networkLog(w http.ResponseWriter, r *http.Request) {
	log, err := a.blobs(r, "log of connections", "network")
	writeLog(w, log, err)
}

// verifierLog serves the output of the verifier's script and of its commands. A verifier may have one of
// them, both or none.
func (a *API) verifierLog(w http.ResponseWriter, r *http.Request) {
	res, err := a.head(r)
	if err != nil {
		httpio.WriteRefusal(w, err)
		return
	}

	log, err := a.artifacts(r.Context(), res.ID, "verifier.stdout", "verifier.stderr")
	for _, c := range res.VerifyResults {
		log = append(log, io.NopCloser(strings.NewReader(terminalText(c))))
	}

	if err == nil && len(log) == 0 {
		err = noBlob(res.ID, "verifier log")
	}

	writeLog(w, log.joined(), err)
}

// terminalText returns a command and its output as in a terminal, then its errors and its exit status.
func terminalText(c rollout.CommandResult) string {
	return fmt.Sprintf("$ %s\n%s%sexit status %d\n", c.Cmd, lines(c.Stdout), lines(c.Stderr), c.ExitCode)
}

// lines ends the last line of a text unless the text is empty.
func lines(text string) string {
	if text == "" || strings.HasSuffix(text, "\n") {
		return text
	}

	return text + "\n"
}

// writeLog answers with a log, or with the reason why there is none.
func writeLog(w http.ResponseWriter, log io.ReadCloser, err error) {
	if err != nil {
		httpio.WriteRefusal(w, err)
		return
	}

	defer log.Close()

	writeBody(w, textPlain, func(w io.Writer) error {
		_, err := io.Copy(w, log)
		return err
	})
}

// writeBody answers with the output of write.
func writeBody(w http.ResponseWriter, kind api.Media, write func(io.Writer) error) {
	w.Header().Set("Content-Type", string(kind))

	if err := write(w); err != nil {
		// the answer has begun: abort, so that the client sees that it is incomplete
		panic(http.ErrAbortHandler)
	}
}
