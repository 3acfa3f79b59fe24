package sandboxd

import (
	"io"
	"net/http"
	"strconv"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/sandboxd/reply"
)

// defaultRead bounds a returned file if the request sets no limit, in bytes.
const defaultRead = 64 << 20

// as serves a request with the rights of the user that it names.
func (s *Server) as(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		user, err := s.processes.Users.Find(r.FormValue("user"))
		if err == nil {
			err = s.processes.Users.Run(user, func() { h(w, r) })
		}

		if err != nil {
			reply.Error(w, err)
		}
	}
}

func (s *Server) putFile(w http.ResponseWriter, r *http.Request) {
	mode, err := fileMode(r.FormValue("mode"))
	if err == nil {
		err = s.places.Write(r.FormValue("path"), mode, r.Body)
	}

	reply.Result(w, err)
}

func fileMode(q string) (uint32, error) {
	if q == "" {
		return 0o644, nil
	}

	mode, err := strconv.ParseUint(q, 8, 32)
	if err != nil || mode > 0o777 {
		return 0, fault.Field("mode", "%q is not a mode such as 0644", q)
	}

	return uint32(mode), nil
}

func (s *Server) getFile(w http.ResponseWriter, r *http.Request) {
	path, limit := r.FormValue("path"), int64(defaultRead)
	if q := r.FormValue("limit"); q != "" {
		n, err := strconv.ParseInt(q, 10, 64)
		if err != nil || n < 0 {
			reply.Error(w, fault.Field("limit", "%q is not a number of bytes", q))
			return
		}

		limit = n
	}

	f, err := s.places.OpenRegular(path, limit)
	if err != nil {
		reply.Error(w, fault.Wrap(reply.Kind(err), err, "read %q", path))
		return
	}
	defer f.Close()

	w.Header().Set("Content-Type", "application/octet-stream")
	// One more byte than allowed shows the client that the file has grown past the limit.
	if _, err := io.Copy(w, io.LimitReader(f, limit+1)); err != nil {
		// so that the client does not take a partial file for the whole
		panic(http.ErrAbortHandler)
	}
}

func (s *Server) deleteFile(w http.ResponseWriter, r *http.Request) {
	reply.Result(w, s.places.Remove(r.FormValue("path")))
}

func (s *Server) putTar(w http.ResponseWriter, r *http.Request) {
	unpack := s.places.Unpack
	if r.FormValue("exact") == "true" {
		unpack = s.places.Restore
	}

	reply.Result(w, unpack(r.FormValue("path"), s.treeLimit, r.Body))
}

func (s *Server) getTar(w http.ResponseWriter, r *http.Request) {
	source, err := s.places.Open(r.FormValue("path"))
	if err != nil {
		reply.Error(w, err)
		return
	}
	defer source.Close()

	if err := source.Measure(s.treeLimit); err != nil {
		reply.Error(w, err)
		return
	}

	w.Header().Set("Content-Type", "application/x-tar")

	if err := source.Pack(w, s.treeLimit); err != nil {
		s.log.Warn("tar broken off", "error", err)
		panic(http.ErrAbortHandler)
	}
}
