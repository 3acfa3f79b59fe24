package scripted

import (
	"encoding/json"
	"io"
	"math"
	"net/http"
	"strings"
)

// sglang registers SGLang's own paths and returns its handler of chat completions, which is chat except for
// calls that request the prompt's ids.
func (s *Server) sglang(model string, chat http.HandlerFunc) http.HandlerFunc {
	s.mux.HandleFunc("GET /get_model_info", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, map[string]any{
			"model_path":     model,
			"tokenizer_path": model,
			"is_generation":  true,
			"weight_version": "default",
		})
	})
	s.mux.HandleFunc("POST /tokenize", func(w http.ResponseWriter, _ *http.Request) {
		writeError(w, http.StatusBadRequest, "prompt: Field required")
	})
	s.mux.HandleFunc("POST /generate", s.generate)

	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(io.LimitReader(r.Body, maxRequest))

		var in struct {
			request
			ReturnPrompt bool `json:"return_prompt_token_ids"`
		}
		if err == nil && json.Unmarshal(body, &in) == nil && in.ReturnPrompt && !in.Stream {
			writeJSON(w, http.StatusOK, map[string]any{"choices": []any{map[string]any{
				"index":            0,
				"message":          map[string]any{"role": "assistant", "content": ""},
				"finish_reason":    "length",
				"prompt_token_ids": in.toyPrompt(),
			}}})

			return
		}

		r.Body = io.NopCloser(strings.NewReader(string(body)))
		chat(w, r)
	}
}

// generation is one call of /generate.
type generation struct {
	InputIDs []int32 `json:"input_ids"`
	Sampling struct {
		MaxNewTokens *int `json:"max_new_tokens"`
	} `json:"sampling_params"`
	Stream  bool `json:"stream"`
	Logprob bool `json:"return_logprob"`
}

// generate plays the script of the conversation that the ids decode to.
func (s *Server) generate(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxRequest))

	var g generation
	if err != nil || json.Unmarshal(body, &g) != nil || g.Stream {
		writeError(w, http.StatusBadRequest, "the request must have input_ids and no stream")
		return
	}

	sc, sent, ok := s.play(w, r, g.InputIDs, body)
	if !ok {
		return
	}
	// where max_new_tokens is null; without it SGLang samples 128
	most := math.MaxInt
	if g.Sampling.MaxNewTokens != nil {
		most = *g.Sampling.MaxNewTokens
	} else if !strings.Contains(string(body), `"max_new_tokens":null`) {
		most = 128
	}

	tokens, finish := sc.sample(most)
	s.log.logReply(sent, tokens, finish)
	writeJSON(w, http.StatusOK, g.object(tokens, finish))
}

// object is the reply as SGLang writes it. The text has no special token; the lists have the one that ends the turn.
func (g *generation) object(tokens []token, finish string) map[string]any {
	var text strings.Builder

	ids, logprobs := []int32{}, []any{}

	for _, t := range tokens {
		text.WriteString(t.piece)
		ids, logprobs = append(ids, t.id), append(logprobs, []any{t.logprob, t.id, nil})
	}

	reason := map[string]any{"type": finish, "matched": End}
	if finish == "length" {
		reason = map[string]any{"type": finish, "length": len(tokens)}
	}

	meta := map[string]any{
		"id":                replyID(g.InputIDs),
		"finish_reason":     reason,
		"prompt_tokens":     len(g.InputIDs),
		"completion_tokens": len(tokens),
		"cached_tokens":     0,
		"weight_version":    "default",
		"e2e_latency":       0.01,
	}
	if g.Logprob {
		meta["input_token_logprobs"], meta["output_token_logprobs"] = []any{}, logprobs
	}

	return map[string]any{"text": text.String(), "output_ids": ids, "meta_info": meta}
}
