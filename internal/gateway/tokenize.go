package gateway

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

	"github.com/rolloutd/rolloutd/internal/continuation"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/gateway/dialect"
	"github.com/rolloutd/rolloutd/internal/gateway/dialect/reply"
	"github.com/rolloutd/rolloutd/internal/gateway/gatewayapi"
	"github.com/rolloutd/rolloutd/internal/gateway/upstream"
	"github.com/rolloutd/rolloutd/internal/input/jsoninput"
	"github.com/rolloutd/rolloutd/internal/rawjson"
)

// maxPrompt bounds the JSON values in an endpoint's reply to a tokenize request; each token is a value.
const maxPrompt = 4 << 20

// tokenize serves the prompt of a conversation as the endpoint's template and tokenizer make it.
func (s *Server) tokenize(w http.ResponseWriter, req *http.Request) error {
	r, err := s.route(req.PathValue("id"))
	if err != nil {
		return err
	}

	body, err := io.ReadAll(http.MaxBytesReader(w, req.Body, maxBody))
	if err != nil {
		return fault.Wrap(fault.Invalid, err, "request body")
	}

	var in gatewayapi.TokenizeRequest
	if err := json.Unmarshal(body, &in); err != nil {
		return fault.Wrap(fault.Invalid, err, "request body")
	}

	began := time.Now()
	tokens, err := r.promptTokens(req.Context(), in.Messages)
	// an earlier disconnect says nothing about the endpoint
	if req.Context().Err() == nil || time.Since(began) >= promptTime {
		r.noteTokenize(began, err)
	}

	if err != nil {
		return err
	}

	held := r.memory.Part()
	defer held.Release()

	if err := r.holdMemory(req.Context(), func() error {
		return held.Resize(tokenizedWeight * int64(len(tokens.IDs)))
	}); err != nil {
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
	// idWeight is the memory of a prompt's id, in bytes, in a slice that grew while it was decoded.
	idWeight = 8
	// tokenizedWeight is idWeight plus the memory for encoding the id into a growing buffer.
	tokenizedWeight = idWeight + 24
)

// tokenizeReply is vLLM's reply to /tokenize.
type tokenizeReply struct {
	Tokens promptIDs `json:"tokens"`
	Max    length    `json:"max_model_len"`
}

// promptIDs are the ids of a prompt: tens of thousands of numbers, which reflection would read one by one.
type promptIDs []int32

// UnmarshalJSON implements json.Unmarshaler.
func (p *promptIDs) UnmarshalJSON(raw []byte) error {
	in := rawjson.Cursor{Src: raw}
	if in.Null() {
		return nil
	}

	if *p, _ = in.IDs(nil); !in.AtEnd() {
		return fault.New(fault.NotFound, "the tokens must be a list of ids")
	}

	return nil
}

// length is the length of a context in tokens; 0: unknown. Tokenizers without a limit report 10^30 or -1.
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

// promptOf returns the prompt of a chat call as the endpoint's /tokenize makes it from the same messages, tools and
// template options.
func (r *route) promptOf(ctx context.Context, a *dialect.Request) ([]int32, error) {
	render, err := r.renderOf(a)
	if err != nil {
		return nil, err
	}

	return render(ctx, nil)
}

// renderOf returns how the endpoint makes prompts from the tools and template options of a chat call, and from
// messages; nil: those of the call.
func (r *route) renderOf(a *dialect.Request) (continuation.Render, error) {
	sent, err := rawjson.ParseObject(a.Body)
	if err != nil {
		return nil, err
	}

	return func(ctx context.Context, messages []json.RawMessage) ([]int32, error) {
		request := map[string]any{"add_generation_prompt": true}

		for _, key := range []string{"model", "messages", "tools", "chat_template_kwargs"} {
			if value, ok := sent.Get(key); ok {
				request[key] = json.RawMessage(value)
			}
		}

		if messages != nil {
			request["messages"] = messages
		}

		var got tokenizeReply
		if err := r.post(ctx, "/tokenize", request, &got); err != nil {
			return nil, err
		}

		if len(got.Tokens) == 0 {
			return nil, fault.New(fault.NotFound, "the reply has no tokens")
		}

		return got.Tokens, nil
	}, nil
}

// promptTime bounds the wait for the ids of a prompt after its call was answered. An endpoint that takes longer hangs.
const promptTime = 15 * time.Second

// addPrompt fetches the ids of a prompt if the reply has only those of the completion, as for a vLLM that
// writes tokens as ids. It drops ids whose number differs from the engine's count.
func (r *route) addPrompt(ctx context.Context, c *call, res *upstream.Result) {
	if r.trace == nil || res.Problem != nil || c.request.API != reply.Chat || len(res.Reply.TokenIDs) == 0 ||
		len(res.Reply.PromptTokenIDs) > 0 {
		return
	}

	if why := r.noPromptIDs.Load(); why != nil {
		res.Reply.Flaws = append(res.Reply.Flaws, *why)
		return
	}

	ids, err := r.promptAfterPause(ctx, c)
	switch counted := res.Reply.Usage.PromptTokens; {
	case err != nil:
		why := "the endpoint returns no prompt ids, and its path /tokenize fails: " + err.Error()
		if fault.Is(err, fault.NotFound) {
			r.noPromptIDs.Store(&why)
		}

		res.Reply.Flaws = append(res.Reply.Flaws, why)
	case counted > 0 && counted != int64(len(ids)):
		res.Reply.Flaws = append(
			res.Reply.Flaws,
			fmt.Sprintf("the endpoint's path /tokenize returns %d ids for a prompt of %d tokens: left out",
				len(ids), counted),
		)
	case r.holdMemory(ctx, func() error { return res.Memory.More(idWeight * int64(len(ids))) }) != nil:
		res.Reply.Flaws = append(
			res.Reply.Flaws,
			"the gateway has no memory for the prompt's ids (gateway.reply_memory_mib)",
		)
	default:
		res.Reply.PromptTokenIDs = ids
	}
}

// promptAfterPause is promptOf while the endpoint is not paused. It repeats a request that failed during a pause.
func (r *route) promptAfterPause(ctx context.Context, c *call) ([]int32, error) {
	for {
		began := time.Now()

		if err := c.progress.Resumed(ctx, r.admission); err != nil {
			return nil, err
		}

		ids, err := r.promptInTime(ctx, c.request)
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

// promptTokens is tokens for an endpoint that is not paused. During a pause, while weights are replaced, an
// answer says nothing about the endpoint.
func (r *route) promptTokens(ctx context.Context, messages []json.RawMessage) (gatewayapi.Tokens, error) {
	if why := r.paused(); why != "" {
		return gatewayapi.Tokens{}, fault.New(fault.Unavailable, "model endpoint: %s", why)
	}

	return r.tokens(ctx, messages)
}

// tokens asks vLLM's path for the ids of a prompt. If the endpoint does not know it, tokens asks SGLang for
// a reply of one token, which includes the ids.
func (r *route) tokens(ctx context.Context, messages []json.RawMessage) (gatewayapi.Tokens, error) {
	request := map[string]any{"model": r.Model.Name, "messages": messages, "add_generation_prompt": true}
	if r.Model.Thinking != nil {
		request["chat_template_kwargs"] = map[string]bool{"enable_thinking": *r.Model.Thinking}
	}

	var vllm tokenizeReply

	err := r.post(ctx, "/tokenize", request, &vllm)
	if err == nil && len(vllm.Tokens) > 0 {
		return gatewayapi.Tokens{IDs: vllm.Tokens, MaxLength: int(vllm.Max)}, nil
	}
	// a prompt that is too long also fails the second request
	if fault.Is(err, fault.Unavailable) || fault.Is(err, fault.Exhausted) {
		return gatewayapi.Tokens{}, err
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
		return gatewayapi.Tokens{}, err
	}

	if len(sglang.Choices) > 0 && len(sglang.Prompt) == 0 {
		sglang.Prompt = sglang.Choices[0].Prompt
	}

	if len(sglang.Prompt) == 0 {
		return gatewayapi.Tokens{}, fault.New(fault.NotFound,
			"the endpoint does not return the token ids of a conversation")
	}

	return gatewayapi.Tokens{IDs: sglang.Prompt, MaxLength: r.context(ctx)}, nil
}

// context returns the length of the model's context from the endpoint's list of models; 0: unknown. It
// caches a known length.
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
	if r.postEncoded(ctx, "/v1/models", nil, &list) != nil {
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

// post sends a request that is not a model call and decodes its reply. Messages and tools in it are written as a model
// call writes them.
func (r *route) post(ctx context.Context, path string, request, into any) error {
	var body bytes.Buffer

	enc := json.NewEncoder(&body)
	enc.SetEscapeHTML(false)

	if err := enc.Encode(request); err != nil {
		return fault.Wrap(fault.Internal, err, "request %s", path)
	}

	return r.postEncoded(ctx, path, body.Bytes(), into)
}

// postEncoded is post with an encoded body; nil: a GET.
func (r *route) postEncoded(ctx context.Context, path string, body []byte, into any) error {
	chat := dialect.Chat()

	raw, release, err := r.upstream.Ask(ctx, upstream.Spec{
		Request:     &dialect.Request{Dialect: chat, Body: body},
		Engines:     r.engines,
		Path:        string(chat.API),
		Key:         r.key,
		ClientGiven: r.Model.ClientGiven(),
		Admission:   r.admission,
		Memory:      r.memory,
	}, path)
	if err != nil {
		return err
	}
	defer release()

	in := jsoninput.NewReader(bytes.NewReader(raw), jsoninput.Limits{Elements: maxPrompt, Depth: 64})

	return fault.Wrap(fault.NotFound, json.NewDecoder(in).Decode(into), "reply of the endpoint to %s", path)
}

// countPath is the path of Anthropic's API that counts tokens.
const countPath = "/v1/messages/count_tokens"

// charsPerToken is the average length of a token, for endpoints that do not count.
const charsPerToken = 4

func (r *route) serveCount(w http.ResponseWriter, req *http.Request) {
	for _, d := range dialect.All() {
		if d.API == reply.Messages {
			r.serveSize(w, req, d, "input_tokens", "")
		}
	}
}

// serveSize answers with the number of tokens of a request's prompt, under that name. within is the member
// of the body that holds the request; "": the body itself. The request is neither recorded nor counted
// against a budget.
func (r *route) serveSize(w http.ResponseWriter, req *http.Request, d *dialect.Dialect, name, within string) {
	size := weight(req)
	if r.room.Acquire(req.Context(), size) != nil {
		// the caller is gone
		panic(http.ErrAbortHandler)
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
	// numbers always encode
	n, _ := json.Marshal(map[string]int{name: r.promptSize(req.Context(), d, body)})
	writeJSON(w, http.StatusOK, n)
}

// promptSize asks the endpoint for the number of tokens, and estimates it if the endpoint does not return
// it or is paused.
func (r *route) promptSize(ctx context.Context, d *dialect.Dialect, body []byte) int {
	if a, err := d.Prompt(
		body,
		r.Model,
	); err == nil && r.noPromptIDs.Load() == nil && r.Model.BaseURL != "" &&
		r.paused() == "" {
		if ids, err := r.promptInTime(ctx, a); err == nil {
			return len(ids)
		}
	}

	return len(body) / charsPerToken
}
