package e2btest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// machine is a sandbox of the control plane.
type machine struct {
	*vm
	id, token string
	metadata  map[string]string
	started   time.Time
	endAt     time.Time
	expiry    *time.Timer
	processes table
}

// envdVersion is the version of envd that the service imitates.
const envdVersion = "0.6.13"

// createBody is the body of a creation.
type createBody struct {
	TemplateID string            `json:"templateID"`
	Timeout    int               `json:"timeout"`
	Metadata   map[string]string `json:"metadata"`
	Secure     bool              `json:"secure"`
}

// detail is the control plane's description of a sandbox.
type detail struct {
	TemplateID      string            `json:"templateID"`
	SandboxID       string            `json:"sandboxID"`
	ClientID        string            `json:"clientID"`
	EnvdVersion     string            `json:"envdVersion"`
	EnvdAccessToken string            `json:"envdAccessToken,omitempty"`
	Metadata        map[string]string `json:"metadata,omitempty"`
	State           string            `json:"state,omitempty"`
	StartedAt       *time.Time        `json:"startedAt,omitempty"`
	EndAt           *time.Time        `json:"endAt,omitempty"`
	CPUCount        int               `json:"cpuCount,omitempty"`
	MemoryMB        int               `json:"memoryMB,omitempty"`
	DiskSizeMB      int               `json:"diskSizeMB,omitempty"`
}

func (m *machine) detail(token bool) detail {
	d := detail{
		TemplateID:  Template,
		SandboxID:   m.id,
		ClientID:    "client",
		EnvdVersion: envdVersion,
		Metadata:    m.metadata,
		State:       "running",
		StartedAt:   &m.started,
		EndAt:       &m.endAt,
		CPUCount:    CPU,
		MemoryMB:    MemoryMiB,
		DiskSizeMB:  1024,
	}
	if token {
		d.EnvdAccessToken = m.token
	}

	return d
}

func (s *Server) controlPlane(mux *http.ServeMux) {
	for pattern, handle := range map[string]http.HandlerFunc{
		"POST /sandboxes":              func(w http.ResponseWriter, r *http.Request) { s.create(w, r, false) },
		"POST /v2/sandboxes":           func(w http.ResponseWriter, r *http.Request) { s.create(w, r, true) },
		"GET /v2/sandboxes":            s.list,
		"GET /sandboxes/{id}":          s.get,
		"DELETE /sandboxes/{id}":       s.delete,
		"POST /sandboxes/{id}/timeout": s.setTimeout,
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			s.mu.Lock()
			s.requests = append(s.requests, r.Method+" "+r.URL.Path)
			s.mu.Unlock()

			if r.Header.Get("X-API-Key") != s.Key {
				fail(w, http.StatusUnauthorized, "Invalid API key")
				return
			}

			handle(w, r)
		})
	}
}

func fail(w http.ResponseWriter, code int, format string, args ...any) {
	answer(w, code, map[string]any{"code": code, "message": fmt.Sprintf(format, args...)})
}

func answer(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	// the client may be gone
	_ = json.NewEncoder(w).Encode(v)
}

// create creates a sandbox; in version 2 of the API always with a token.
func (s *Server) create(w http.ResponseWriter, r *http.Request, v2 bool) {
	if v2 && s.OnlyV1 {
		fail(w, http.StatusNotFound, "no matching operation was found")
		return
	}

	if refused, ok := s.nextRefusal(); ok {
		if refused.retryAfter != "" {
			w.Header().Set("Retry-After", refused.retryAfter)
		}

		fail(w, refused.status, "the creation is refused")

		return
	}

	var body createBody
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		fail(w, http.StatusBadRequest, "%v", err)
		return
	}

	if body.TemplateID != Template {
		fail(w, http.StatusNotFound, "template '%s' not found", body.TemplateID)
		return
	}

	m := &machine{id: newID(), metadata: body.Metadata, started: time.Now()}
	if v2 || body.Secure {
		m.token = newID()
	}

	if err := s.add(r.Context(), m, time.Duration(cmp.Or(body.Timeout, 300))*time.Second); err != nil {
		fail(w, http.StatusInternalServerError, "%v", err)
		return
	}

	answer(w, http.StatusCreated, detail{
		TemplateID: Template, SandboxID: m.id, ClientID: "client", EnvdVersion: envdVersion, EnvdAccessToken: m.token,
	})
}

func (s *Server) nextRefusal() (refusal, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()

	if s.MaxSandboxes > 0 && len(s.machines) >= s.MaxSandboxes {
		return refusal{status: http.StatusTooManyRequests, retryAfter: "3600"}, true
	}

	if len(s.refusals) == 0 {
		return refusal{}, false
	}

	next := s.refusals[0]
	s.refusals = s.refusals[1:]

	return next, true
}

// of finds a running sandbox.
func (s *Server) of(w http.ResponseWriter, r *http.Request) *machine {
	s.mu.Lock()
	defer s.mu.Unlock()

	m := s.machines[r.PathValue("id")]
	if m == nil {
		fail(w, http.StatusNotFound, "sandbox \"%s\" doesn't exist or you don't have access to it", r.PathValue("id"))
	}

	return m
}

func (s *Server) get(w http.ResponseWriter, r *http.Request) {
	if m := s.of(w, r); m != nil {
		s.mu.Lock()
		d := m.detail(true)
		s.mu.Unlock()
		answer(w, http.StatusOK, d)
	}
}

func (s *Server) delete(w http.ResponseWriter, r *http.Request) {
	if m := s.of(w, r); m != nil {
		// another request was faster
		if err := s.Kill(m.id); err != nil {
			fail(w, http.StatusNotFound, "%v", err)
			return
		}

		w.WriteHeader(http.StatusNoContent)
	}
}

func (s *Server) setTimeout(w http.ResponseWriter, r *http.Request) {
	var body struct{ Timeout int }

	m := s.of(w, r)
	if m == nil {
		return
	}

	if err := json.NewDecoder(r.Body).Decode(&body); err != nil || body.Timeout < 0 {
		fail(w, http.StatusBadRequest, "timeout: %v", err)
		return
	}

	lives := time.Duration(body.Timeout) * time.Second

	s.mu.Lock()
	defer s.mu.Unlock()

	m.endAt = time.Now().Add(lives)
	m.expiry.Reset(lives)
	w.WriteHeader(http.StatusNoContent)
}

// list filters by metadata, whose names and values are encoded twice, and returns pages.
func (s *Server) list(w http.ResponseWriter, r *http.Request) {
	wanted, err := url.ParseQuery(r.URL.Query().Get("metadata"))
	if err != nil {
		fail(w, http.StatusBadRequest, "metadata: %v", err)
		return
	}

	limit, err := strconv.Atoi(cmp.Or(r.URL.Query().Get("limit"), "100"))
	if err != nil || limit < 1 || limit > 100 {
		fail(w, http.StatusBadRequest, "limit: must be 1 to 100")
		return
	}

	s.mu.Lock()
	defer s.mu.Unlock()

	all := []detail{}

	for _, m := range s.machines {
		if m.has(wanted) && m.id > r.URL.Query().Get("nextToken") {
			all = append(all, m.detail(false))
		}
	}

	slices.SortFunc(all, func(a, b detail) int { return strings.Compare(a.SandboxID, b.SandboxID) })

	if len(all) > limit {
		all = all[:limit]
		w.Header().Set("X-Next-Token", all[limit-1].SandboxID)
	}

	answer(w, http.StatusOK, all)
}

func (m *machine) has(wanted url.Values) bool {
	for name, values := range wanted {
		name, err1 := url.QueryUnescape(name)

		value, err2 := url.QueryUnescape(values[0])
		if got, ok := m.metadata[name]; !ok || got != value || err1 != nil || err2 != nil {
			return false
		}
	}

	return true
}
