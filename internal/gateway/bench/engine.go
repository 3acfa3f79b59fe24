package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// work describes the reply that a request wants from the mock engine, in its "user" member, which proxies
// forward unchanged.
type work struct {
	tokens, prompt int

	// pause before each token
	pause time.Duration
}

func (w work) String() string { return fmt.Sprintf("%d %d %d", w.tokens, w.prompt, w.pause) }

// engine answers as vLLM does: a prompt's ids in the first chunk, then a token with five alternatives in each chunk.
type engine struct {
	mu    sync.Mutex
	ready map[work]reply
}

type reply struct {
	events [][]byte

	// unary reply
	unary string
}

func newEngine() *engine { return &engine{ready: map[work]reply{}} }

func (e *engine) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)

	var (
		in struct {
			talkCall

			Stream bool `json:"stream"`
		}
		ask work
	)

	if err == nil {
		err = json.Unmarshal(body, &in)
	}

	if err == nil && (in.User == talkUser || req.URL.Path == "/tokenize") {
		in.answer(w, req.URL.Path)
		return
	}

	if err == nil {
		_, err = fmt.Sscanf(in.User, "%d %d %d", &ask.tokens, &ask.prompt, &ask.pause)
	}

	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}

	r := e.reply(ask)

	if !in.Stream {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, r.unary)

		return
	}

	w.Header().Set("Content-Type", "text/event-stream")
	flush := http.NewResponseController(w)

	for _, event := range r.events {
		time.Sleep(ask.pause)
		// Bytes, which the HTTP server sends as one chunk, as uvicorn does. A string would be sent in chunks of 2 KiB.
		if _, err := w.Write(event); err != nil || flush.Flush() != nil {
			return
		}
	}
}

func (e *engine) reply(w work) reply {
	e.mu.Lock()
	defer e.mu.Unlock()

	r, ok := e.ready[w]
	if !ok {
		r = newReply(w)
		e.ready[w] = r
	}

	return r
}

const (
	entry = `{"token":" word","logprob":-0.123456789,"bytes":[32,119,111,114,100]`
	about = `"id":"chatcmpl-0123456789","created":1767323045,"model":"Qwen/Qwen3.5-4B"`
)

func newReply(w work) reply {
	token := entry + `,"top_logprobs":[` + list(5, entry+"}") + `]}`
	ids, usage := vocabulary(w.prompt), fmt.Sprintf(
		`"usage":{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d}`,
		w.prompt,
		w.tokens,
		w.prompt+w.tokens,
	)
	head := `data: {"object":"chat.completion.chunk",` + about + `,"choices":[`

	events := [][]byte{
		[]byte(
			head + `{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}],"prompt_token_ids":[` + ids + "]}\n\n",
		),
	}
	for i := range w.tokens {
		events = append(
			events,
			fmt.Appendf(
				nil,
				`%s{"index":0,"delta":{"content":" word"},"logprobs":{"content":[%s]},"finish_reason":null,"token_ids":[%d]}]}`+"\n\n",
				head,
				token,
				i,
			),
		)
	}

	return reply{
		events: append(
			events,
			[]byte(
				head+`{"index":0,"delta":{"content":""},"logprobs":null,"finish_reason":"stop","stop_reason":null}]}`+"\n\n",
			),
			[]byte(head+"],"+usage+"}\n\ndata: [DONE]\n\n"),
		),
		unary: fmt.Sprintf(
			`{"object":"chat.completion",%s,"choices":[{"index":0,"message":{"role":"assistant","content":"%s"},"logprobs":{"content":[%s]},"finish_reason":"stop","token_ids":[%s]}],"prompt_token_ids":[%s],%s}`,
			about,
			strings.Repeat(" word", w.tokens),
			list(w.tokens, token),
			list(w.tokens, "1"),
			ids,
			usage,
		),
	}
}

// vocabulary returns n ids with a realistic distribution: common ids are small.
func vocabulary(n int) string {
	random := rand.New(rand.NewPCG(1, 2))

	ids := make([]string, n)
	for i := range ids {
		ids[i] = strconv.Itoa(random.IntN(1 + random.IntN(150000)))
	}

	return strings.Join(ids, ",")
}

// list repeats the item n times, separated by commas.
func list(n int, item string) string { return strings.TrimSuffix(strings.Repeat(item+",", n), ",") }
