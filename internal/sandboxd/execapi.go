package sandboxd

import (
	"net/http"
	"time"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/sandboxd/reply"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

// postExec does not take its turn: calls do not wait for each other.
func (s *Server) postExec(w http.ResponseWriter, r *http.Request) {
	var e wire.Exec
	if err := readJSON(w, r, &e); err != nil {
		reply.Error(w, err)
		return
	}
	wait, err := time.ParseDuration(r.FormValue("wait"))
	if err != nil || wait < 0 {
		reply.Error(w, fault.Field("wait", "%q is not a duration such as 5s", r.FormValue("wait")))
		return
	}
	result, err := s.exec.Run(r.Context(), r.PathValue("id"), e, wait)
	if err != nil {
		reply.Error(w, err)
		return
	}
	reply.JSON(w, result)
}

func (s *Server) deleteExec(w http.ResponseWriter, r *http.Request) {
	reply.Result(w, s.exec.Delete(r.PathValue("id")))
}
