// Package scripted is a model server that plays scripts: for demos without a model, for tests that need to
// know every token, and for load. It speaks chat completions, the Responses API, the Anthropic Messages API
// and Google's generateContent.
//
// It is stateless. The instruction (the last user message) selects the script, and the number of assistant
// messages since selects the turn; so any number of agents may call one server at once, and a repeated call
// gets the same answer. The only state is how often a fault with `times` was sent.
//
// Replies have vLLM's form, streamed or whole, with log probabilities and token ids if requested. The ids
// are made up but consistent: equal text has equal ids, pieces join to the text, and a conversation's next
// prompt begins with the last prompt followed by its completion, as long as the agent sends back what it
// got.
package scripted

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"
)

// Options of a Server. The zero value plays the demo scripts.
type Options struct {
	// nil: Default()
	Scripts Scripts

	// the name in GET /v1/models; "" is "scripted". Requests may name any model.
	Model string

	// gets a Sent as a JSON line for each chat call; nil: none
	Log io.Writer
	// RawLogprobs gives log probabilities before the temperature, as vLLM does by default.
	RawLogprobs bool
	// NamedIDs returns token ids only as the names of tokens ("token_id:5"), as vLLM before 0.10.2 does
	// with --return-tokens-as-token-ids: prompts have none. /tokenize then returns the ids of chat calls.
	NamedIDs bool
	// SGLang serves the API of SGLang beside chat completions: /generate, /get_model_info, the ids of a
	// chat's prompt on return_prompt_token_ids. Its /tokenize takes text only, its completions return no
	// ids.
	SGLang bool
}

// Server is an http.Handler with the API of an OpenAI-compatible server.
type Server struct {
	model   string
	started time.Time
	scripts []ready
	shown   counter
	log     *sentLog
	mux     *http.ServeMux

	rawLogprobs, namedIDs, noIDs bool
}

// ready is a script with its turns cut into replies.
type ready struct {
	Script
	replies []*reply
}

// New makes a server of valid scripts (see Scripts.Validate; Load has checked what it returns).
func New(o Options) *Server {
	if o.Scripts == nil {
		o.Scripts = Default()
	}

	if o.Model == "" {
		o.Model = "scripted"
	}

	s := &Server{
		model:       o.Model,
		started:     time.Now(),
		log:         &sentLog{w: o.Log},
		mux:         http.NewServeMux(),
		rawLogprobs: o.RawLogprobs,
		namedIDs:    o.NamedIDs,
		noIDs:       o.SGLang,
	}
	for _, script := range o.Scripts {
		s.scripts = append(s.scripts, makeReady(script))
	}

	chat := s.serve(readChat, (*call).chat)
	if o.SGLang {
		chat = s.sglang(o.Model, chat)
	}

	s.mux.HandleFunc("POST /v1/chat/completions", chat)

	for path, d := range map[string]*dialect{"responses": responsesAPI(), "messages": messagesAPI()} {
		s.mux.HandleFunc("POST /v1/"+path, s.serve(d.read, d.answer))
	}

	s.mux.HandleFunc("POST /v1beta/models/{call}", s.generateContent)
	s.mux.HandleFunc("POST /v1/completions", s.completions)

	if !o.SGLang {
		s.mux.HandleFunc("POST /tokenize", s.tokenize)
	}

	s.mux.HandleFunc("GET /v1/models", s.models)
	s.mux.HandleFunc("GET /health", func(http.ResponseWriter, *http.Request) {})
	s.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		writeError(w, http.StatusNotFound, fmt.Sprintf("no such path: %s %s", r.Method, r.URL.Path))
	})

	return s
}

func makeReady(script Script) ready {
	r := ready{Script: script}
	for i := range script.Turns {
		turn := script.Turns[i]
		if script.Hermes {
			turn = turn.hermes()
		}

		r.replies = append(r.replies, newReply(turn, r.pace(i).TokensPerChunk))
	}

	return r
}

// pace is the pace of turn i, or of the script.
func (r *ready) pace(i int) Pace {
	if p := r.Turns[i].Pace; p != nil {
		return *p
	}

	return r.Pace
}

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

func (s *Server) models(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, map[string]any{"object": "list", "data": []any{map[string]any{
		"id": s.model, "object": "model", "created": s.started.Unix(), "owned_by": "rolloutd", "max_model_len": 131072,
	}}})
}

// writeError answers with the error object that OpenAI-compatible servers use.
func writeError(w http.ResponseWriter, status int, text string) {
	writeJSON(w, status, map[string]any{"error": map[string]any{
		"message": text, "type": errorType(status), "param": nil, "code": status,
	}})
}

func errorType(status int) string {
	switch status {
	case http.StatusUnauthorized:
		return "authentication_error"
	case http.StatusTooManyRequests:
		return "rate_limit_error"
	}

	if status >= 500 {
		return "server_error"
	}

	return "invalid_request_error"
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	// an error means that the caller left
	_ = json.NewEncoder(w).Encode(v)
}
