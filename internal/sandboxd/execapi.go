package sandboxd

import (
	"net/http"
	"time"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/sandboxd/reply"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

// Calls run in parallel, without a turn.

func (s *Server) postExec(w http.ResponseWriter, r *http.Request) {
	var e wire.Exec

	wait, err := readCall(w, r, &e)

	var result wire.ExecResult
	if err == nil {
		result, err = s.exec.Run(r.Context(), r.PathValue("id"), e, wait)
	}

	answer(w, result, err)
}

func (s *Server) deleteExec(w http.ResponseWriter, r *http.Request) {
	reply.Result(w, s.exec.Delete(r.Context(), r.PathValue("id")))
}

func (s *Server) postPTY(w http.ResponseWriter, r *http.Request) {
	var c wire.PTYCall

	wait, err := readCall(w, r, &c)

	var result wire.PTYAnswer
	if err == nil {
		result, err = s.pty.Call(r.Context(), r.PathValue("name"), r.PathValue("id"), c, wait)
	}

	answer(w, result, err)
}

func (s *Server) deletePTY(w http.ResponseWriter, r *http.Request) {
	reply.Result(w, s.pty.Delete(r.PathValue("name")))
}

// readCall reads the body of a call, and for how long its answer may be delayed.
func readCall(w http.ResponseWriter, r *http.Request, body any) (time.Duration, error) {
	if err := readJSON(w, r, body); err != nil {
		return 0, err
	}

	wait, err := time.ParseDuration(r.FormValue("wait"))
	if err != nil || wait < 0 {
		return 0, fault.Field("wait", "%q is not a duration such as 5s", r.FormValue("wait"))
	}

	return wait, nil
}

func answer(w http.ResponseWriter, result any, err error) {
	if err != nil {
		reply.Error(w, err)
		return
	}

	reply.JSON(w, result)
}
