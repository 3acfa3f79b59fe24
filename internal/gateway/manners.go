package gateway

import (
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/rolloutd/rolloutd/internal/chat"
)

// quirk is a way in which an endpoint wants its requests other than they are written at first.
type quirk string

const (
	newBound   quirk = "max_completion_tokens in place of max_tokens" // OpenAI's reasoning models
	noCounts   quirk = "no stream_options"
	noLogprobs quirk = "no logprobs"
	noMessages quirk = "no enable_response_messages" // all but vLLM
	noStream   quirk = "token ids without a stream"  // SGLang's chat/completions
)

// maxManners bounds the endpoints whose manners are kept. Those of one that is forgotten cost a request to learn again.
const maxManners = 1 << 10

// manners are the quirks that endpoints were found to have, by address and model.
type manners struct {
	mu    sync.Mutex
	known map[string][]quirk
}

func (m *manners) of(place string) []quirk {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.known[place])
}

func (m *manners) learn(place string, quirks []quirk) {
	if len(quirks) == 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.known == nil {
		m.known = map[string][]quirk{}
	}
	if _, ok := m.known[place]; !ok {
		m.makeRoom()
	}
	for _, q := range quirks {
		if !slices.Contains(m.known[place], q) {
			m.known[place] = append(m.known[place], q)
		}
	}
}

// makeRoom forgets any other endpoint where there are too many. m.mu is held.
func (m *manners) makeRoom() {
	for place := range m.known {
		if len(m.known) < maxManners {
			return
		}
		delete(m.known, place)
	}
}

// apply rewrites the call once more, and says whether that changed anything.
func (q quirk) apply(a *ask) bool {
	o, err := chat.ParseObject(a.body)
	if err != nil {
		return false // only what is an object is ever sent
	}
	d := &draft{Object: o, changes: a.changes}
	before := len(a.body)
	switch q {
	case newBound:
		bound, ok := d.Get(maxTokens)
		if _, both := d.Get(maxCompletionTokens); ok && !both {
			d.set(maxCompletionTokens, slices.Clone(bound))
		}
		d.remove(maxTokens)
	case noCounts:
		d.remove(streamOptions)
	case noLogprobs:
		d.remove("logprobs")
		d.restore(include)
		if a.api == chat.Responses {
			d.restore("top_logprobs")
		} else {
			d.remove("top_logprobs")
		}
	case noMessages:
		d.restore(responseMessages)
	case noStream:
		d.remove("stream")
		d.remove(streamOptions)
	}
	a.take(d)
	return len(a.body) != before
}

// lesson is what a refusal teaches: it names a member that is there because of the gateway, and a way is known to do without.
// Where the ids of tokens are what the call is for there is no way to do without them, and the endpoint refuses us for good.
func lesson(res *result, a *ask) (quirk, bool) {
	if !slices.Contains([]int{http.StatusBadRequest, http.StatusForbidden, http.StatusUnprocessableEntity}, res.status) {
		return "", false
	}
	body := res.problem.body
	wrong := func(member string) bool { return a.changes.any(member) && names(body, member) }
	// The agent's own options would go with ours, and its words in them, so that the endpoint answered after all.
	lost := func(member string) bool { return a.changes.given(streamOptions) && says(a.body, member) }
	switch {
	case wrong(returnIDs) && strings.Contains(string(body), "stream=false") && !lost(returnIDs):
		return noStream, true
	case refusesBound(body):
		return newBound, true
	case wrong(streamOptions) && !lost(streamOptions):
		return noCounts, true
	case wrong(responseMessages):
		return noMessages, true
	case !a.demanded && (wrong("logprobs") || wrong("top_logprobs") || wrong(include) || a.changes.any(include) && names(body, "logprobs")):
		return noLogprobs, true
	}
	for _, member := range []string{returnIDs, "logprobs", "top_logprobs"} {
		if wrong(member) && !says(a.body, member) {
			res.problem.class = refused
			res.problem.text = "the endpoint does not take " + member + ", without which no tokens can be captured: " + res.problem.text
		}
	}
	return "", false
}

// says tells whether an agent has the name of a member anywhere in its request, beside the member itself; what an endpoint says
// of that name may then be the agent's own words. Letters that are spelt as escapes count for any name: no encoder does that.
func says(request []byte, member string) bool {
	name := regexp.MustCompile(`\b` + regexp.QuoteMeta(member) + `\b|(?i)\\u00(?:5f|6[1-9a-f]|7[0-9a])`)
	return len(name.FindAllIndex(request, 2)) > 1
}

// refusesBound says whether a refusal is the one that OpenAI's reasoning models give to max_tokens.
func refusesBound(body []byte) bool {
	var e struct {
		Error struct{ Param, Code string }
	}
	return json.Unmarshal(body, &e) == nil && e.Error.Param == maxTokens && e.Error.Code == "unsupported_parameter"
}

// names says whether a refusal is of that member: it has the name, and a word that says that there should be no such thing.
func names(body []byte, member string) bool {
	if !regexp.MustCompile(`(?i)not (?:supported|allowed|permitted|available)|unsupported|unknown|unrecognized|unexpected|extra_forbidden`).Match(body) {
		return false
	}
	return regexp.MustCompile(`\b` + regexp.QuoteMeta(member) + `\b`).Match(body)
}
