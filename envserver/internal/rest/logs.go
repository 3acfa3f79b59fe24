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
	_, _ = io.WriteString(w, res.ProxyLogTail) // the client may be gone
}

func (a *API) agentLog(w http.ResponseWriter, r *http.Request) {
	left, err := a.leftBy(r, "agent log", "agent")
	pourLog(w, left, err)
}

func (a *API) networkLog(w http.ResponseWriter, r *http.Request) {
	left, err := a.leftBy(r, "log of connections", "network")
	pourLog(w, left, err)
}

// verifierLog serves the output of the verifier's script and of its commands. A verifier may have either, both or none.
func (a *API) verifierLog(w http.ResponseWriter, r *http.Request) {
	res, err := a.head(r)
	if err != nil {
		httpio.WriteRefusal(w, err)
		return
	}
	left, err := a.artifacts(r.Context(), res.ID, "verifier.stdout", "verifier.stderr")
	for _, c := range res.VerifyResults {
		left = append(left, io.NopCloser(strings.NewReader(transcript(c))))
	}
	if err == nil && len(left) == 0 {
		err = leftNothing(res.ID, "verifier log")
	}
	pourLog(w, left.joined(), err)
}

// transcript returns a command as in a terminal, then its errors and its exit status.
func transcript(c rollout.CommandResult) string {
	return fmt.Sprintf("$ %s\n%s%sexit status %d\n", c.Cmd, lines(c.Stdout), lines(c.Stderr), c.ExitCode)
}

// lines ends the last line of a text that has one.
func lines(text string) string {
	if text == "" || strings.HasSuffix(text, "\n") {
		return text
	}
	return text + "\n"
}

// pourLog answers with a log, or with the reason why there is none.
func pourLog(w http.ResponseWriter, left io.ReadCloser, err error) {
	if err != nil {
		httpio.WriteRefusal(w, err)
		return
	}
	defer left.Close()
	pour(w, textPlain, func(w io.Writer) error {
		_, err := io.Copy(w, left)
		return err
	})
}

// pour answers with the output of write.
func pour(w http.ResponseWriter, kind api.Media, write func(io.Writer) error) {
	w.Header().Set("Content-Type", string(kind))
	if err := write(w); err != nil {
		panic(http.ErrAbortHandler) // the answer has begun: abort, so that the client sees that it is incomplete
	}
}
