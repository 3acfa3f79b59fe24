package opencode_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/agent"
	"github.com/rolloutd/rolloutd/internal/agent/opencode"
	"github.com/rolloutd/rolloutd/internal/agent/opencode/binary"
)

// fakeServer answers as `opencode serve` does, with the state that a test sets.
type fakeServer struct {
	mu       sync.Mutex
	sessions []map[string]any
	prompts  []map[string]any
	messages []any
	busy     bool

	// number of prompts that are accepted and then lost
	swallow int
	// cutAnswers is the number of sessions that are created without sending a reply.
	cutAnswers int

	// number of health requests answered with healthy=false
	unwell  int
	aborted int

	// requests for the status
	statusRequests int

	// sent to the listener
	events chan string

	// cuts the event stream
	cut chan struct{}

	// receives a value for each opened event stream
	opened chan struct{}

	// the event stream is one line that never ends
	endless atomic.Bool
	// messagesBy handles requests for messages if it is set.
	messagesBy http.HandlerFunc
}

func newFake(t *testing.T) (*fakeServer, *fakeSandbox, *opencode.Agent) {
	t.Helper()

	s := &fakeServer{
		sessions: []map[string]any{},
		messages: []any{},
		events:   make(chan string),
		cut:      make(chan struct{}),
		opened:   make(chan struct{}, 100),
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /global/health", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, map[string]any{"healthy": s.read(func() any { s.unwell--; return s.unwell < 0 })})
	})
	mux.HandleFunc(
		"GET /session",
		func(w http.ResponseWriter, _ *http.Request) { answer(w, s.read(func() any { return s.sessions })) },
	)
	mux.HandleFunc("POST /session", s.create)
	mux.HandleFunc("GET /session/status", s.status)
	mux.HandleFunc("POST /session/{id}/prompt_async", s.prompt)
	mux.HandleFunc("GET /session/{id}/message", s.list)
	mux.HandleFunc("POST /session/{id}/abort", func(w http.ResponseWriter, _ *http.Request) {
		s.set(func() { s.aborted++ })
		answer(w, true)
	})
	mux.HandleFunc("GET /event", s.stream)
	h := httptest.NewServer(mux)

	t.Cleanup(func() {
		h.CloseClientConnections()
		h.Close()
	})

	u, err := url.Parse(h.URL)
	require.NoError(t, err)

	b := &fakeSandbox{
		server: u,
		files:  map[string][]byte{"/opt/rolloutd/agents/opencode/1.18.33/models.json": []byte("{}")},
	}
	b.write("opencode server listening on http://127.0.0.1:4096\n", "")

	return s, b, opencode.New(opencode.Options{Binary: binary.New(binary.Options{})})
}

func answer(w http.ResponseWriter, v any) { _ = json.NewEncoder(w).Encode(v) }

// statusRequested returns a function that reports whether the status was requested at least n times.
func (s *fakeServer) statusRequested(n int) func() bool {
	return func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()

		return s.statusRequests >= n
	}
}

func (s *fakeServer) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()

	change()
}

// read encodes a snapshot as JSON, so that the caller shares no memory with later changes.
func (s *fakeServer) read(what func() any) any {
	s.mu.Lock()
	defer s.mu.Unlock()

	b, err := json.Marshal(what())
	if err != nil || string(b) == "null" {
		return []any{}
	}

	return json.RawMessage(b)
}

func (s *fakeServer) create(w http.ResponseWriter, r *http.Request) {
	var body map[string]any

	_ = json.NewDecoder(r.Body).Decode(&body)

	s.set(func() {
		n := len(s.sessions)
		s.sessions = append([]map[string]any{{
			"id":    fmt.Sprintf("ses_%d", n),
			"title": body["title"],
			"time":  map[string]int{"created": 100 + n},
		}}, s.sessions...)
	})

	cut := false

	s.set(func() { s.cutAnswers--; cut = s.cutAnswers >= 0 })

	if cut {
		panic(http.ErrAbortHandler)
	}

	answer(w, s.read(func() any { return s.sessions[0] }))
}

func (s *fakeServer) status(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()

	s.statusRequests++

	all := map[string]any{}
	if s.busy {
		all["ses_0"] = map[string]string{"type": "busy"}
	}

	answer(w, all)
}

func (s *fakeServer) prompt(w http.ResponseWriter, r *http.Request) {
	var body map[string]any

	_ = json.NewDecoder(r.Body).Decode(&body)

	s.set(func() {
		s.prompts = append(s.prompts, body)
		if s.swallow--; s.swallow < 0 {
			s.messages = append(s.messages, map[string]any{
				"info":  map[string]any{"role": "user"},
				"parts": body["parts"],
			})
		}
	})
	w.WriteHeader(http.StatusNoContent)
}

func (s *fakeServer) list(w http.ResponseWriter, r *http.Request) {
	if s.messagesBy != nil {
		s.messagesBy(w, r)
		return
	}

	answer(w, s.read(func() any {
		if r.URL.Query().Get("limit") == "1" && len(s.messages) > 1 {
			return s.messages[len(s.messages)-1:]
		}

		return s.messages
	}))
}

func (s *fakeServer) stream(w http.ResponseWriter, r *http.Request) {
	out := http.NewResponseController(w)
	send := func(e string) { _, _ = fmt.Fprintf(w, "data: %s\n\n", e); _ = out.Flush() }
	send(`{"type":"server.connected","properties":{}}`)

	s.opened <- struct{}{}

	if s.endless.Load() {
		piece := strings.Repeat("x", 1<<20)
		for err := error(nil); err == nil; {
			_, err = io.WriteString(w, piece)
		}

		return
	}

	for {
		select {
		case e := <-s.events:
			send(e)
		case <-s.cut:
			return
		case <-r.Context().Done():
			return
		}
	}
}

// assistant returns an assistant message. completed is 0 for a message that is still being written.
func assistant(completed int64, finish, errorName string) map[string]any {
	info := map[string]any{"role": "assistant", "time": map[string]int64{"created": 1000, "completed": completed}}
	if finish != "" {
		info["finish"] = finish
	}

	if errorName != "" {
		info["error"] = map[string]any{"name": errorName, "data": map[string]string{"message": "in its own words"}}
	}

	return map[string]any{"info": info, "parts": []any{map[string]any{"type": "text", "text": "x"}}}
}

func testJob() agent.Job { return agent.Job{Instruction: "do \"it\"\n", MaxOutput: 4096, Launch: 1} }
