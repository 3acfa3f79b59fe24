package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

// load is a number of calls with a given concurrency.
type load struct {
	name      string
	calls, at int
	stream    bool

	// length of the request's prompt
	words int
	work  work

	// count CPU per token, else per call
	perToken bool

	// calls of a rollout, whose prompt grows to words and work.prompt; 0: all calls are the same
	steps int

	// the agents speak messages, each its own conversation, which continues like this; "": they do not
	continues rollout.Continuation
}

func loads() []load {
	return append([]load{
		{name: "small unary call", calls: 10000, at: 16, words: 10, work: work{tokens: 8, prompt: 20}},
		{
			name:   "call with a prompt of 30k tokens",
			calls:  2000,
			at:     8,
			stream: true,
			words:  30000,
			work:   work{tokens: 8, prompt: 30000},
		},
		{
			name:   "call of a rollout of 40, to 30k tokens",
			calls:  1600,
			at:     8,
			stream: true,
			words:  30000,
			work:   work{tokens: 100, prompt: 30000},
			steps:  40,
		},
		{
			name:     "streamed token, as fast as it goes",
			calls:    40,
			at:       4,
			stream:   true,
			words:    10,
			work:     work{tokens: 2000, prompt: 100},
			perToken: true,
		},
		{
			name:     "streamed token, 1,000 streams",
			calls:    1000,
			at:       1000,
			stream:   true,
			words:    10,
			work:     work{tokens: 200, prompt: 100, pause: 100 * time.Millisecond},
			perToken: true,
		},
	}, conversations()...)
}

type measured struct {
	// CPU per unit
	cpu, wall time.Duration

	// at the end
	memory int64
	failed int
}

func (l load) measure(s *subject) (measured, error) {
	agents := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: l.at, DisableCompression: true}}
	defer agents.CloseIdleConnections()

	urls, bodies, err := l.agents(s)
	if err != nil {
		return measured{}, err
	}
	// warm up
	call(agents, s.urls[0], l.bodies()[0])

	before, err := s.cpu()
	if err != nil {
		return measured{}, err
	}

	began := time.Now()

	var left, failed atomic.Int64
	left.Store(int64(l.calls))

	var wg sync.WaitGroup
	for n := range l.at {
		wg.Go(func() {
			bodies := bodies[n%len(bodies)]
			for i := 0; (!l.talks() || i < len(bodies)) && left.Add(-1) >= 0; i++ {
				if !call(agents, urls[n%len(urls)], bodies[i%len(bodies)]) {
					failed.Add(1)
				}
			}
		})
	}

	wg.Wait()

	m := measured{wall: time.Since(began), failed: int(failed.Load())}

	after, err := s.cpu()
	if err != nil {
		return m, err
	}

	units := l.calls
	if l.perToken {
		units *= l.work.tokens
	}

	m.cpu = (after - before) / time.Duration(units)
	m.memory, err = s.memory()

	return m, err
}

// agents returns the base URLs of the agents, and their requests.
func (l load) agents(s *subject) (urls []string, bodies [][]string, err error) {
	if !l.talks() {
		return s.urls, [][]string{l.bodies()}, nil
	}

	for range l.at {
		s.rollouts++
		name := fmt.Sprintf("talk-%d.1", s.rollouts)

		bodies, urls = append(bodies, l.conversation(name)), append(urls, s.urls[0])
		if s.admin == nil {
			continue
		}

		if urls[len(urls)-1], err = s.open(name, l.continues); err != nil {
			return nil, nil, err
		}
	}

	return urls, bodies, nil
}

// bodies returns the requests of one agent, in order.
func (l load) bodies() []string {
	steps := max(l.steps, 1)

	all := make([]string, steps)
	for i := range all {
		step := l
		step.words, step.work.prompt = l.words*(i+1)/steps, l.work.prompt*(i+1)/steps
		all[i] = step.body()
	}

	return all
}

func (l load) body() string {
	return fmt.Sprintf(
		`{"model":"m","stream":%t,"user":%q,"messages":[{"role":"user","content":%q}],"max_tokens":4000}`,
		l.stream,
		l.work.String(),
		strings.Repeat("some ", l.words),
	)
}

// call makes one call of an agent and reports whether the reply is complete.
func call(agents *http.Client, url, body string) bool {
	req, err := http.NewRequestWithContext(
		context.Background(),
		http.MethodPost,
		url+"/chat/completions",
		strings.NewReader(body),
	)
	if err != nil {
		return false
	}

	req.Header.Set("Content-Type", "application/json")

	res, err := agents.Do(req)
	if err != nil {
		return false
	}
	// read to its end
	defer func() { _ = res.Body.Close() }()

	all, err := io.ReadAll(res.Body)

	return err == nil && res.StatusCode == http.StatusOK && (bytes.Contains(all, []byte(`"finish_reason":"stop"`)) ||
		bytes.Contains(all, []byte(`"finish_reason":"tool_calls"`)))
}
