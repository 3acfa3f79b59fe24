package scripted

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/rolloutd/rolloutd/internal/clock"
	"github.com/rolloutd/rolloutd/internal/scripted/toy"
)

// tokenize answers as vLLM's path does for a conversation.
func (s *Server) tokenize(w http.ResponseWriter, r *http.Request) {
	var in request
	if err := json.NewDecoder(io.LimitReader(r.Body, maxRequest)).Decode(&in); err != nil || len(in.Messages) == 0 {
		writeError(w, http.StatusBadRequest, "request: want messages")
		return
	}
	if s.namedIDs {
		ids := in.promptIDs()
		writeJSON(w, http.StatusOK, map[string]any{"count": len(ids), "max_model_len": toy.MaxLength, "tokens": ids})
		return
	}
	messages := make([]toy.Message, 0, len(in.Messages))
	for _, m := range in.Messages {
		messages = append(messages, toy.Message{Role: m.Role, Content: string(m.Content)})
	}
	ids := toy.Prompt(messages)
	writeJSON(w, http.StatusOK, map[string]any{"count": len(ids), "max_model_len": toy.MaxLength, "tokens": ids})
}

// completion is one call of /v1/completions with a prompt of token ids.
type completion struct {
	Model         string  `json:"model"`
	Prompt        []int32 `json:"prompt"`
	MaxTokens     *int    `json:"max_tokens"`
	Stream        bool    `json:"stream"`
	Logprobs      *int    `json:"logprobs"`
	ReturnIDs     bool    `json:"return_token_ids"`
	StreamOptions struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
}

// completions plays the script of the conversation that the prompt's ids decode to. Its reply comes as one event after the pace's delay.
func (s *Server) completions(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxRequest))
	if err != nil {
		writeError(w, http.StatusBadRequest, "read request: "+err.Error())
		return
	}
	var c completion
	if err := json.Unmarshal(body, &c); err != nil {
		writeError(w, http.StatusBadRequest, "request: want a prompt of token ids: "+err.Error())
		return
	}
	read, err := toy.Read(c.Prompt)
	if err != nil {
		writeError(w, http.StatusBadRequest, err.Error())
		return
	}
	messages := make([]message, 0, len(read))
	for _, m := range read {
		messages = append(messages, message{Role: m.Role, Content: content(m.Content)})
	}
	sc, ok := s.choose(&request{Messages: messages})
	if !ok {
		writeError(w, http.StatusBadRequest, "no script matches the instruction; add one without match to play for any")
		return
	}
	session := r.Header.Get("X-Session-Id")
	f := s.fault(sc, session)
	sent := &Sent{
		Session: session, CallID: r.Header.Get("X-Rolloutd-Call"), Script: sc.script, Turn: sc.turn, PromptTokenIDs: c.Prompt, Request: body,
	}
	if clock.Sleep(r.Context(), sc.pace.Delay+f.Delay) != nil || f.refuse(w, r) {
		s.log.write(sent)
		return
	}
	sent.Status = http.StatusOK
	c.reply(w, sc, sent, s.log)
}

// reply sends the sampled tokens, as far as max_tokens allows.
func (c *completion) reply(w http.ResponseWriter, sc scene, sent *Sent, log *sentLog) {
	tokens, finish := sampleOf(sc.reply.text), sc.reply.finish
	most := 16 // what engines take where no bound is given
	if c.MaxTokens != nil {
		most = *c.MaxTokens
	}
	if len(tokens) > most {
		tokens, finish = tokens[:most], "length"
	}
	sent.add(tokens)
	sent.FinishReason, sent.Complete = finish, true
	log.write(sent)
	body, err := json.Marshal(c.object(tokens, finish))
	if err != nil {
		writeError(w, http.StatusInternalServerError, err.Error())
		return
	}
	if !c.Stream {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(body) // an error means that the caller left
		return
	}
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	_, _ = fmt.Fprintf(w, "data: %s\n\ndata: [DONE]\n\n", body)
}

// object is the reply as one text completion, which as an event of a stream is the same.
func (c *completion) object(tokens []token, finish string) map[string]any {
	var text strings.Builder
	ids, names, logprobs := []int32{}, []string{}, []float64{}
	for _, t := range tokens {
		text.WriteString(t.piece)
		ids, names, logprobs = append(ids, t.id), append(names, "token_id:"+strconv.Itoa(int(t.id))), append(logprobs, t.logprob)
	}
	choice := map[string]any{"index": 0, "text": text.String(), "logprobs": nil, "finish_reason": finish}
	if c.Logprobs != nil {
		choice["logprobs"] = map[string]any{"tokens": names, "token_logprobs": logprobs, "top_logprobs": nil, "text_offset": []int{}}
	}
	if c.ReturnIDs {
		choice["token_ids"], choice["prompt_token_ids"] = ids, c.Prompt
	}
	n, m := len(c.Prompt), len(tokens)
	return map[string]any{
		"id": "cmpl-" + replyID(c.Prompt), "object": "text_completion", "created": time.Now().Unix(), "model": c.Model,
		"choices": []any{choice}, "usage": map[string]int{"prompt_tokens": n, "completion_tokens": m, "total_tokens": n + m},
	}
}

// sampleOf is text as the model samples it: in tokens that the tokenizer would not make of it, and the end of the turn.
func sampleOf(text string) []token {
	var tokens []token
	for _, piece := range pieces(text) {
		for _, id := range append([]int32{toy.Bytes + int32(piece[0])}, toy.Encode(nil, piece[1:])...) {
			s, _ := toy.Text(id) // just encoded
			tokens = append(tokens, newToken(s, id, len(tokens)))
		}
	}
	return append(tokens, newToken("", toy.End, len(tokens)))
}
