package proxy

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/gateway"
	"github.com/rolloutd/rolloutd/internal/gateway/dialect"
	"github.com/rolloutd/rolloutd/internal/gateway/dialect/reply"
	"github.com/rolloutd/rolloutd/internal/gateway/upstream"
	"github.com/rolloutd/rolloutd/internal/jsonlimit"
	"github.com/rolloutd/rolloutd/internal/rawjson"
)

// maxPrompt bounds the values in an endpoint's reply about a prompt; each token is one of them.
const maxPrompt = 4 << 20

// tokenize gives the prompt of a conversation as the endpoint's own template and tokenizer make it.
func (s *Server) tokenize(w http.ResponseWriter, req *http.Request) error {
	r, err := s.route(req.PathValue("id"))
	if err != nil {
		return err
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, req.Body, maxBody))
	if err != nil {
		return fault.Wrap(fault.Invalid, err, "request body")
	}
	var in gateway.TokenizeRequest
	if err := json.Unmarshal(body, &in); err != nil {
		return fault.Wrap(fault.Invalid, err, "request body")
	}
	began := time.Now()
	tokens, err := r.promptTokens(req.Context(), in.Messages)
	if req.Context().Err() == nil || time.Since(began) >= promptTime { // a caller that left sooner says nothing of the endpoint
		r.tokenized(began, err)
	}
	if err != nil {
		return err
	}
	held := r.memory.Part()
	defer held.Release()
	if err := r.await(req.Context(), func() error { return held.Hold(tokenizedWeight * int64(len(tokens.IDs))) }); err != nil {
		return err
	}
	out, err := json.Marshal(tokens)
	if err != nil {
		return fault.Wrap(fault.Internal, err, "tokens")
	}
	writeJSON(w, http.StatusOK, out)
	return nil
}

const (
	// idWeight is what an id of a prompt takes in bytes, in a slice that grew as it was decoded.
	idWeight = 8
	// tokenizedWeight is that of an id that is also written out, into a buffer that grows.
	tokenizedWeight = idWeight + 24
)

// tokenized is vLLM's reply to /tokenize.
type tokenized struct {
	Tokens []int32 `json:"tokens"`
	Max    length  `json:"max_model_len"`
}

// length is the length of a context in tokens; 0: not known. Tokenizers without one say 10^30, or -1.
type length int

// UnmarshalJSON implements json.Unmarshaler.
func (l *length) UnmarshalJSON(raw []byte) error {
	n, err := strconv.Atoi(string(raw))
	if err != nil || n < 0 || n > math.MaxInt32 {
		n = 0
	}
	*l = length(n)
	return nil
}

// promptOf gives the prompt of a chat call as vLLM's /tokenize makes it of the same messages, tools and template options.
func (r *route) promptOf(ctx context.Context, a *dialect.Request) ([]int32, error) {
	sent, err := rawjson.ParseObject(a.Body)
	if err != nil {
		return nil, err
	}
	request := map[string]any{"add_generation_prompt": true}
	for _, key := range []string{"model", "messages", "tools", "chat_template_kwargs"} {
		if value, ok := sent.Get(key); ok {
			request[key] = json.RawMessage(value)
		}
	}
	var got tokenized
	if err := r.post(ctx, "/tokenize", request, &got); err != nil {
		return nil, err
	}
	if len(got.Tokens) == 0 {
		return nil, fault.New(fault.NotFound, "its reply has no tokens")
	}
	return got.Tokens, nil
}

// promptTime bounds how long the reply to a call waits for the ids of its prompt. An endpoint that takes longer to tokenise hangs.
const promptTime = 15 * time.Second

// addPrompt asks for the ids of a prompt where the reply has those of the completion alone, as of vLLM that only writes tokens by their ids.
// Ids that the engine did not count are not its prompt's.
func (r *route) addPrompt(ctx context.Context, c *call, res *upstream.Result) {
	if r.trace == nil || res.Problem != nil || c.ask.API != reply.Chat || len(res.Reply.TokenIDs) == 0 || len(res.Reply.PromptTokenIDs) > 0 {
		return
	}
	if why := r.untold.Load(); why != nil {
		res.Reply.Flaws = append(res.Reply.Flaws, *why)
		return
	}
	ids, err := r.promptAfterPause(ctx, c)
	switch counted := res.Reply.Usage.PromptTokens; {
	case err != nil:
		why := "the endpoint gives no ids of prompts, and its path /tokenize fails: " + err.Error()
		if fault.Is(err, fault.NotFound) {
			r.untold.Store(&why)
		}
		res.Reply.Flaws = append(res.Reply.Flaws, why)
	case counted > 0 && counted != int64(len(ids)):
		res.Reply.Flaws = append(res.Reply.Flaws, fmt.Sprintf("the endpoint's path /tokenize gives %d ids for a prompt of %d tokens: left out", len(ids), counted))
	case r.await(ctx, func() error { return res.Held.More(idWeight * int64(len(ids))) }) != nil:
		res.Reply.Flaws = append(res.Reply.Flaws, "the gateway has no memory for the prompt's ids (gateway.reply_memory_mib)")
	default:
		res.Reply.PromptTokenIDs = ids
	}
}

// promptAfterPause is promptOf of a call that was answered, once the endpoint is not paused. What fails as a pause comes upon it is asked again after it.
func (r *route) promptAfterPause(ctx context.Context, c *call) ([]int32, error) {
	for {
		began := time.Now()
		if err := c.progress.Resumed(ctx, r.admission); err != nil {
			return nil, err
		}
		ids, err := r.promptInTime(ctx, c.ask)
		if err == nil || ctx.Err() != nil || !r.admission.PausedSince(began) {
			return ids, err
		}
	}
}

func (r *route) promptInTime(ctx context.Context, a *dialect.Request) ([]int32, error) {
	ctx, cancel := context.WithTimeout(ctx, promptTime)
	defer cancel()
	return r.promptOf(ctx, a)
}

// promptTokens is tokens unless the endpoint is paused: what it answers then, as its weights are replaced, says nothing of what it can do.
func (r *route) promptTokens(ctx context.Context, messages []json.RawMessage) (gateway.Tokens, error) {
	if why := r.paused(); why != "" {
		return gateway.Tokens{}, fault.New(fault.Unavailable, "model endpoint: %s", why)
	}
	return r.tokens(ctx, messages)
}

// tokens asks as vLLM is asked, and where that path is not known as SGLang is, which gives a prompt's ids with a reply of one token.
func (r *route) tokens(ctx context.Context, messages []json.RawMessage) (gateway.Tokens, error) {
	request := map[string]any{"model": r.Model.Name, "messages": messages, "add_generation_prompt": true}
	if r.Model.Thinking != nil {
		request["chat_template_kwargs"] = map[string]bool{"enable_thinking": *r.Model.Thinking}
	}
	var vllm tokenized
	err := r.post(ctx, "/tokenize", request, &vllm)
	if err == nil && len(vllm.Tokens) > 0 {
		return gateway.Tokens{IDs: vllm.Tokens, MaxLength: int(vllm.Max)}, nil
	}
	if fault.Is(err, fault.Unavailable) || fault.Is(err, fault.Exhausted) { // a prompt that is too long fits no other call
		return gateway.Tokens{}, err
	}
	delete(request, "add_generation_prompt")
	request["max_tokens"], request["stream"], request["return_prompt_token_ids"] = 1, false, true
	var sglang struct {
		Prompt  []int32 `json:"prompt_token_ids"`
		Choices []struct {
			Prompt []int32 `json:"prompt_token_ids"`
		} `json:"choices"`
	}
	if err := r.post(ctx, "/v1/"+string(reply.Chat), request, &sglang); err != nil {
		return gateway.Tokens{}, err
	}
	if len(sglang.Choices) > 0 && len(sglang.Prompt) == 0 {
		sglang.Prompt = sglang.Choices[0].Prompt
	}
	if len(sglang.Prompt) == 0 {
		return gateway.Tokens{}, fault.New(fault.NotFound, "the endpoint does not tell the token ids of a conversation")
	}
	return gateway.Tokens{IDs: sglang.Prompt, MaxLength: r.context(ctx)}, nil
}

// context is the length of the model's context by the endpoint's list of models; 0: it is not known. It is asked for until it is known.
func (r *route) context(ctx context.Context) int {
	if n := r.contextLength.Load(); n > 0 {
		return int(n)
	}
	var list struct {
		Data []struct {
			ID  string `json:"id"`
			Max length `json:"max_model_len"`
		} `json:"data"`
	}
	if r.ask(ctx, "/v1/models", nil, &list) != nil {
		return 0
	}
	for _, m := range list.Data {
		if m.ID == r.Model.Name || len(list.Data) == 1 {
			r.contextLength.Store(int64(m.Max))
			return int(m.Max)
		}
	}
	return 0
}

// post sends a request beside the model calls and decodes its reply.
func (r *route) post(ctx context.Context, path string, request, into any) error {
	body, err := json.Marshal(request)
	if err != nil {
		return fault.Wrap(fault.Internal, err, "request %s", path)
	}
	return r.ask(ctx, path, body, into)
}

// ask is post with a body that is encoded; nil: a GET.
func (r *route) ask(ctx context.Context, path string, body []byte, into any) error {
	chat := dialect.Chat()
	raw, release, err := r.upstream.Ask(ctx, upstream.Spec{
		Request: &dialect.Request{Dialect: chat, Body: body}, Engines: r.engines, Path: string(chat.API), Key: r.key, ClientGiven: r.Model.ClientGiven(), Memory: r.memory,
	}, path)
	if err != nil {
		return err
	}
	defer release()
	in := jsonlimit.NewReader(bytes.NewReader(raw), jsonlimit.Limits{Elements: maxPrompt, Depth: 64})
	return fault.Wrap(fault.NotFound, json.NewDecoder(in).Decode(into), "reply of the endpoint to %s", path)
}

// countPath counts the tokens of a request of Anthropic's API.
const countPath = "/v1/messages/count_tokens"

// charsPerToken is what a token has on average, where the endpoint does not count.
const charsPerToken = 4

func (r *route) serveCount(w http.ResponseWriter, req *http.Request) {
	for _, d := range dialect.All() {
		if d.API == reply.Messages {
			r.serveSize(w, req, d, "input_tokens", "")
		}
	}
}

// serveSize answers how many tokens the prompt of a request has, under that name. The request may stand in a member of the body. It is no model call: it is
// neither recorded nor counted for a budget.
func (r *route) serveSize(w http.ResponseWriter, req *http.Request, d *dialect.Dialect, name, within string) {
	size := weight(req)
	if r.room.Acquire(req.Context(), size) != nil {
		panic(http.ErrAbortHandler) // who asked is gone
	}
	defer r.room.Release(size)
	body, err := readBody(w, req, nil)
	if err != nil {
		refuse(w, d, bodyStatus(err), err.Error(), "")
		return
	}
	if inner := rawjson.MemberOf(body, within); rawjson.IsObject(inner) {
		body = inner
	}
	n, _ := json.Marshal(map[string]int{name: r.promptSize(req.Context(), d, body)}) // numbers always encode
	writeJSON(w, http.StatusOK, n)
}

// promptSize asks the endpoint, and estimates where it does not tell or is paused.
func (r *route) promptSize(ctx context.Context, d *dialect.Dialect, body []byte) int {
	if a, err := d.Prompt(body, r.Model); err == nil && r.untold.Load() == nil && r.Model.BaseURL != "" && r.paused() == "" {
		if ids, err := r.promptInTime(ctx, a); err == nil {
			return len(ids)
		}
	}
	return len(body) / charsPerToken
}
