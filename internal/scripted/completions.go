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
)

// tokenize answers as vLLM does for a conversation. With tools it is one of chat completions, and else one of
// completions, which agents that write their tools into the text call.
func (s *Server) tokenize(w http.ResponseWriter, r *http.Request) {
	var in request
	if err := json.NewDecoder(io.LimitReader(r.Body, maxRequest)).Decode(&in); err != nil || len(in.Messages) == 0 {
		writeError(w, http.StatusBadRequest, "messages: must not be empty")
		return
	}

	if s.namedIDs || len(in.Tools) > 0 {
		ids := in.promptIDs()
		writeJSON(w, http.StatusOK, map[string]any{"count": len(ids), "max_model_len": MaxLength, "tokens": ids})

		return
	}

	ids := in.toyPrompt()
	writeJSON(w, http.StatusOK, map[string]any{"count": len(ids), "max_model_len": MaxLength, "tokens": ids})
}

// toyPrompt is the prompt of a conversation in the template of the toy tokenizer.
func (r *request) toyPrompt() []int32 {
	messages := make([]toyMessage, 0, len(r.Messages))
	for _, m := range r.Messages {
		messages = append(messages, toyMessage{Role: m.Role, Content: string(m.Content)})
	}

	return promptTokens(messages)
}

// completion is one call of /v1/completions.
type completion struct {
	Model         string   `json:"model"`
	Prompt        prompt   `json:"prompt"`
	MaxTokens     *int     `json:"max_tokens"`
	Stream        bool     `json:"stream"`
	Logprobs      *int     `json:"logprobs"`
	Temperature   *float64 `json:"temperature"`
	ReturnIDs     bool     `json:"return_token_ids"`
	StreamOptions struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`

	// the server returns tokens as text only
	noIDs bool
}

// prompt is a prompt of token ids. A prompt of text, as the gateway's probe sends, is a conversation of one message.
type prompt []int32

// UnmarshalJSON implements json.Unmarshaler.
func (p *prompt) UnmarshalJSON(data []byte) error {
	if len(data) == 0 || data[0] != '"' {
		return json.Unmarshal(data, (*[]int32)(p))
	}

	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		return err
	}

	*p = promptTokens([]toyMessage{{Role: "user", Content: text}})

	return nil
}

// completions plays the script of the conversation that the prompt's ids decode to. The reply is one event
// after the pace's delay.
func (s *Server) completions(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxRequest))
	if err != nil {
		writeError(w, http.StatusBadRequest, "read request: "+err.Error())
		return
	}

	var c completion
	if err := json.Unmarshal(body, &c); err != nil {
		writeError(w, http.StatusBadRequest, "prompt: must be a list of token ids or a text: "+err.Error())
		return
	}

	c.noIDs = s.noIDs
	if sc, sent, ok := s.play(w, r, c.Prompt, body); ok {
		c.reply(w, sc, sent, s.log)
	}
}

// play selects the reply for a prompt of ids and waits for its delay; false: it has answered, or the caller has left.
func (s *Server) play(w http.ResponseWriter, r *http.Request, prompt []int32, body []byte) (plannedReply, *Sent, bool) {
	read, err := readPrompt(prompt)
	if err != nil {
		writeError(w, http.StatusBadRequest, err.Error())
		return plannedReply{}, nil, false
	}

	messages := make([]message, 0, len(read))
	for _, m := range read {
		messages = append(messages, message{Role: m.Role, Content: content(m.Content)})
	}

	sc, ok := s.choose(&request{Messages: messages})
	if !ok {
		writeError(w, http.StatusBadRequest, "no script matches the instruction; add one without match to play for any")
		return plannedReply{}, nil, false
	}

	session := r.Header.Get("X-Session-Id")
	f := s.fault(sc, session)

	sent := &Sent{
		Session:        session,
		CallID:         r.Header.Get("X-Rolloutd-Call"),
		Script:         sc.script,
		Turn:           sc.turn,
		PromptTokenIDs: prompt,
		Request:        body,
	}
	if clock.Sleep(r.Context(), sc.pace.Delay+f.Delay) != nil || f.refuse(w, r) {
		s.log.write(sent)
		return plannedReply{}, nil, false
	}

	sent.Status = http.StatusOK

	return sc, sent, true
}

// reply sends the sampled tokens, as far as max_tokens allows.
func (c *completion) reply(w http.ResponseWriter, sc plannedReply, sent *Sent, log *sentLog) {
	// the default of engines
	most := 16
	if c.MaxTokens != nil {
		most = *c.MaxTokens
	}

	tokens, finish := sc.sample(most)
	log.logReply(sent, tokens, finish)

	body, err := json.Marshal(c.object(tokens, finish))
	if err != nil {
		writeError(w, http.StatusInternalServerError, err.Error())
		return
	}

	if !c.Stream {
		w.Header().Set("Content-Type", "application/json")
		// an error means that the caller left
		_, _ = w.Write(body)

		return
	}

	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	_, _ = fmt.Fprintf(w, "data: %s\n\ndata: [DONE]\n\n", body)
}

// sample returns the planned reply, cut to most tokens, and the finish reason.
func (sc *plannedReply) sample(most int) (tokens []token, finish string) {
	tokens, finish = sampleOf(sc.reply.text), sc.reply.finish
	if len(tokens) > most {
		tokens, finish = tokens[:most], "length"
	}

	return tokens, finish
}

// logReply logs a reply that is sent in one piece.
func (l *sentLog) logReply(sent *Sent, tokens []token, finish string) {
	sent.add(tokens)
	sent.FinishReason, sent.Complete = finish, true
	l.write(sent)
}

// object is the reply as a text completion, which is also the form of an event.
func (c *completion) object(tokens []token, finish string) map[string]any {
	var text strings.Builder

	ids, names, logprobs, tops := []int32{}, []string{}, []float64{}, []map[string]float64(nil)

	for _, t := range tokens {
		text.WriteString(t.piece)

		name := "token_id:" + strconv.Itoa(int(t.id))
		if c.noIDs {
			name = t.piece
		}

		ids, names, logprobs = append(ids, t.id), append(names, name), append(logprobs, t.logprob)
		if c.Logprobs != nil && *c.Logprobs > 1 {
			tops = append(tops, c.top(name, t.logprob))
		}
	}

	choice := map[string]any{"index": 0, "text": text.String(), "logprobs": nil, "finish_reason": finish}
	if c.Logprobs != nil {
		choice["logprobs"] = map[string]any{
			"tokens":         names,
			"token_logprobs": logprobs,
			"top_logprobs":   tops,
			"text_offset":    []int{},
		}
	}

	if c.ReturnIDs && !c.noIDs {
		choice["token_ids"], choice["prompt_token_ids"] = ids, c.Prompt
	}

	n, m := len(c.Prompt), len(tokens)

	return map[string]any{
		"id":      "cmpl-" + replyID(c.Prompt),
		"object":  "text_completion",
		"created": time.Now().Unix(),
		"model":   c.Model,
		"choices": []any{choice},
		"usage":   map[string]int{"prompt_tokens": n, "completion_tokens": m, "total_tokens": n + m},
	}
}

// top returns the likeliest tokens: the sampled one and one alternative, as in chat completions.
func (c *completion) top(name string, logprob float64) map[string]float64 {
	temperature := 1.0
	if c.Temperature != nil && *c.Temperature > 0 {
		temperature = *c.Temperature
	}

	return map[string]float64{name: logprob, " alternative1": logprob - 1/temperature}
}

// sampleOf returns text as the model samples it: in other tokens than the tokenizer makes, followed by the
// end of the turn.
func sampleOf(text string) []token {
	var tokens []token

	for _, piece := range pieces(text) {
		for _, id := range append([]int32{Bytes + int32(piece[0])}, encodeTokens(nil, piece[1:])...) {
			// just encoded
			s, _ := tokenText(id)
			tokens = append(tokens, newToken(s, id, len(tokens)))
		}
	}

	return append(tokens, newToken("", End, len(tokens)))
}
