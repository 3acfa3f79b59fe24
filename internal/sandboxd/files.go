package sandboxd

import (
	"cmp"
	"io"
	"net/http"
	"path"
	"strconv"
	"strings"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/sandboxd/files"
	"github.com/rolloutd/rolloutd/internal/sandboxd/reply"
	"github.com/rolloutd/rolloutd/internal/sandboxd/view"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
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
		err = s.places.Write(s.path(r), mode, r.Body)
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
	name, limit := s.path(r), int64(defaultRead)
	if q := r.FormValue("limit"); q != "" {
		n, err := strconv.ParseInt(q, 10, 64)
		if err != nil || n < 0 {
			reply.Error(w, fault.Field("limit", "%q is not a number of bytes", q))
			return
		}

		limit = n
	}

	f, err := s.places.OpenRegular(name, limit)
	if err != nil {
		reply.Error(w, fault.Wrap(reply.Kind(err), err, "read %q", name))
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
	reply.Result(w, s.places.Remove(s.path(r)))
}

func (s *Server) putTar(w http.ResponseWriter, r *http.Request) {
	folder := s.path(r)
	if r.FormValue("exact") == "true" {
		reply.Result(w, s.places.Restore(folder, s.treeLimit, r.Body, s.names(folder), r.Form["skip"]...))
		return
	}

	reply.Result(w, s.places.Unpack(folder, s.treeLimit, r.Body, s.names(folder)))
}

func (s *Server) getTar(w http.ResponseWriter, r *http.Request) {
	folder := s.path(r)

	source, err := s.places.Open(folder, s.names(folder))
	if err != nil {
		reply.Error(w, err)
		return
	}
	defer source.Close()

	// the agent may have removed the workdir by its name in the image, and made it again
	if folder == wire.AgentHome && s.startIn != s.workdir {
		source.Replace(path.Base(wire.AgentWorkdir), string(s.startIn))
	}

	limit := s.treeLimit
	if err := source.Measure(limit); err != nil {
		reply.Error(w, err)
		return
	}

	if changed := r.Form["changed"]; len(changed) > 0 {
		limit += files.MaxChangedBytes
		if err := addChanged(source, changed, limit); err != nil {
			reply.Error(w, err)
			return
		}
	}

	w.Header().Set("Content-Type", "application/x-tar")

	if err := source.Pack(w, limit); err != nil {
		s.log.Warn("tar broken off", "error", err)
		panic(http.ErrAbortHandler)
	}
}

// path returns the path that a request names.
func (s *Server) path(r *http.Request) string {
	return s.workdir.Locate(r.FormValue("path"))
}

// names returns the names that a tar of the folder has: in one of the home the workdir has its usual name.
func (s *Server) names(folder string) files.Names {
	if folder != wire.AgentHome || s.workdir == "" {
		return files.Names{}
	}

	below := strings.TrimPrefix(strings.TrimPrefix(string(s.workdir), wire.AgentHome), "/")

	return files.Names{InFolder: cmp.Or(below, "."), InTar: path.Base(wire.AgentWorkdir)}
}

// addChanged adds folders that changed to the tar of a home.
func addChanged(source *files.Source, changed []string, limit int64) error {
	for n, folder := range changed {
		name := path.Join(path.Base(wire.AgentChanged), strconv.Itoa(n))
		if err := source.Add(name, folder); err != nil {
			return err
		}
	}

	return source.Measure(limit)
}

// getChanges lists what has changed since sandboxd serves, besides the folders that the verifier gets anyway.
func (s *Server) getChanges(w http.ResponseWriter, r *http.Request) {
	graded, err := view.ShownBelow(wire.AgentWorkdir, wire.AgentGraded)

	own := append(graded, wire.AgentHome, wire.Tmp)
	if s.startIn != s.workdir {
		own = append(own, string(s.startIn))
	}

	var all []wire.Change
	if err == nil {
		all, err = files.Changes("/", r.URL.Query()["in"], own, s.changesSince)
	}

	if err != nil {
		reply.Error(w, fault.Wrap(reply.Kind(err), err, "list changes"))
		return
	}

	reply.JSON(w, all)
}
