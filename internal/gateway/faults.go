package gateway

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rolloutd/rolloutd/internal/gateway/dialect"
	"github.com/rolloutd/rolloutd/internal/gateway/dialect/render"
	"github.com/rolloutd/rolloutd/internal/gateway/dialect/reply"
	"github.com/rolloutd/rolloutd/internal/gateway/markup"
	"github.com/rolloutd/rolloutd/internal/gateway/upstream"
	"github.com/rolloutd/rolloutd/internal/rawjson"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

const (
	// maxReplaced bounds the replies to one call, and maxReplacedOfRoute those of a route, that are replaced since an
	// engine lost their calls.
	maxReplaced        = 2
	maxReplacedOfRoute = 8
	// maxWays bounds what is remembered of endpoints.
	maxWays = 1 << 10
)

// engineFault is a sign of a fault in a reply.
type engineFault struct {
	word rollout.EngineFault
	text string

	// it is provably not the policy's
	proved bool
}

func (f engineFault) flaw() string { return string(f.word) + ": " + f.text }

// knownWays has how replies were written whose calls an endpoint delivered. It is safe for concurrent use; the zero
// value is empty.
type knownWays struct {
	mu   sync.Mutex
	ways map[wayAt]bool
}

// wayAt is a way at an endpoint; see route.place.
type wayAt struct {
	place string
	way   markup.Way
}

func (k *knownWays) add(place string, way markup.Way) {
	k.mu.Lock()
	defer k.mu.Unlock()

	if k.ways == nil || len(k.ways) >= maxWays {
		k.ways = map[wayAt]bool{}
	}

	k.ways[wayAt{place, way}] = true
}

func (k *knownWays) has(place string, way markup.Way) bool {
	k.mu.Lock()
	defer k.mu.Unlock()

	return k.ways[wayAt{place, way}]
}

// completeSound makes the call. A reply with a fault that is provably the engine's is recorded and the call made again,
// if so wanted and within bounds.
func (r *route) completeSound(ctx context.Context, c *call) *upstream.Result {
	for n := 1; ; n++ {
		res := r.complete(ctx, c)

		found := r.examine(c, res)
		if found.word == "" {
			return res
		}

		r.admission.NoteFault(string(found.word))
		r.report.faults.WithLabelValues(r.Model.Label(), string(found.word)).Inc()

		if found.proved && r.onFault == rollout.FaultMask {
			c.masked = string(found.word)
		}

		again := found.proved && r.onFault == rollout.FaultReplace && n <= maxReplaced && r.mayReplace(c)
		if again {
			found.text += "; the agent did not get this reply, and the call was made again"
		}

		res.Reply.Flaws = append(res.Reply.Flaws, found.flaw())

		if !again || !r.setAside(ctx, c, res, n) {
			return res
		}
	}
}

// mayReplace reports whether the agent has seen nothing of the reply, and the bounds allow another call.
func (r *route) mayReplace(c *call) bool {
	r.mu.Lock()
	defer r.mu.Unlock()

	// A gateway that restarts counts anew; no policy restarts it.
	if c.live.HasSent() || r.trace == nil || r.replaced >= maxReplacedOfRoute || r.journal.Ended != "" {
		return false
	}

	r.replaced++

	return r.spentBudget(c.request.Kind) == ""
}

// setAside records a reply that the agent does not get, as a turn of its own, and makes the call that of the next turn.
// false: it cannot be recorded, and is the reply.
func (r *route) setAside(ctx context.Context, c *call, res *upstream.Result, n int) bool {
	rec := r.record(c, res)
	rec.CallID = fmt.Sprintf("%s~%d", c.id, n)

	if r.append(ctx, c, rec) != nil {
		return false
	}

	res.Memory.Release()

	r.mu.Lock()
	defer r.mu.Unlock()

	r.count(spent{kind: c.request.Kind, usage: rec.Usage, complete: true, reached: true})
	r.waitTime.add(rec.Began.Add(rec.Latency), rec.Owed)

	r.latestTurn++
	c.turn, c.began = r.latestTurn, time.Now()

	return true
}

// examine looks for signs of a fault in the reply to a chat completion of the agent or a subagent. It returns the zero
// value if there is none.
func (r *route) examine(c *call, res *upstream.Result) engineFault {
	if r.trace == nil || !isTurn(c.request.Kind) {
		return engineFault{}
	}

	if res.Problem != nil {
		return faultOf(res.Problem)
	}

	tools := toolNames(c.request)
	if len(tools) == 0 {
		return engineFault{}
	}

	got, ok := readSample(res)
	if !ok {
		return engineFault{}
	}

	sampled, way, plain := markup.Plain(got.text, got.stop, tools)
	// of several calls an agent gets only the first if it wants one at a time
	plain = plain && markup.In(got.Reasoning) == "" && (len(sampled) == 1 || !oneCall(c.request))
	place := r.place(reply.Chat)

	switch lost := got.loses(sampled); {
	case !plain:
	case !lost && got.delivers(sampled):
		r.ways.add(place, way)
	case lost && r.ways.has(place, way):
		return lostCalls(way, len(sampled), len(got.Calls))
	}

	return got.suspicion()
}

// lostCalls is the fault of an engine that did not deliver calls as it did before.
func lostCalls(way markup.Way, sampled, delivered int) engineFault {
	f := engineFault{word: rollout.FaultCallCut, proved: true}
	if delivered == 0 {
		f.word = rollout.FaultCallLost
	}

	f.text = fmt.Sprintf(
		"the model sampled %d calls in the form %s, as this endpoint delivered them before, and the reply has %d, or not whole",
		sampled,
		way.Form,
		delivered,
	)

	return f
}

// faultOf is the fault that a failed call shows.
func faultOf(p *upstream.Problem) engineFault {
	const parser = `(?i)\b(?:tool|function|reasoning|fc)[ _-]?(?:calls?|related)?[ _-]?(?:info )?(?:pars(?:er|ing)|to json)\b` +
		`|\bparse (?:tool|function|fc)\b`

	switch silent := p.Silent.Round(time.Second); {
	case p.Silent > 0 && p.Mute:
		return engineFault{
			word:   rollout.FaultFrozen,
			text:   fmt.Sprintf("the endpoint took the call, and nothing of its stream came in %s", silent),
			proved: true,
		}
	case p.Silent > 0:
		return engineFault{
			word: rollout.FaultStalled,
			text: fmt.Sprintf("nothing of the stream came for %s, until its time was up", silent),
		}
	case p.Answered() && regexp.MustCompile(parser).MatchString(p.Text):
		return engineFault{word: rollout.FaultParserRefused, text: "the endpoint's error is about a parser of replies"}
	default:
		return engineFault{}
	}
}

// oneCall reports whether the agent wants at most one call in a reply.
func oneCall(a *dialect.Request) bool {
	return string(rawjson.MemberOf(a.Body, "parallel_tool_calls")) == "false"
}

// toolNames returns the tools that the model may call as it likes; none: no call is expected in the reply.
func toolNames(a *dialect.Request) []string {
	if a.API != reply.Chat || a.Constrained != "" || !absent(rawjson.MemberOf(a.Body, "stop")) {
		return nil
	}

	if choice := rawjson.MemberOf(a.Body, "tool_choice"); !absent(choice) && rawjson.TextOf(choice) != "auto" {
		return nil
	}

	var tools []struct{ Function struct{ Name string } }
	if json.Unmarshal(rawjson.MemberOf(a.Body, "tools"), &tools) != nil {
		return nil
	}

	var names []string
	for _, t := range tools {
		names = append(names, t.Function.Name)
	}

	return names
}

// sample is a reply, and the text that was sampled for it.
type sample struct {
	Text      string
	Reasoning string
	Calls     []markup.Call

	// the model ended it
	ended bool

	// decoded from the sampled tokens, the last of them alone; "": not known
	text, stop string
}

// readSample reads a reply; false: it cannot be read.
func readSample(res *upstream.Result) (sample, bool) {
	whole, err := render.View{API: reply.Chat, Logprobs: true, Top: 0}.Assemble(res.Raw)
	if err != nil {
		return sample{}, false
	}

	var in struct {
		Choices []struct {
			Finish  string `json:"finish_reason"`
			Message struct {
				Content          string
				Reasoning        string
				ReasoningContent string                           `json:"reasoning_content"`
				ToolCalls        []struct{ Function markup.Call } `json:"tool_calls"`
			}
		}
	}
	if json.Unmarshal(whole.JSON(), &in) != nil || len(in.Choices) == 0 {
		return sample{}, false
	}

	m := in.Choices[0].Message

	s := sample{Text: m.Content, Reasoning: cmp.Or(m.ReasoningContent, m.Reasoning)}
	s.ended = in.Choices[0].Finish == "stop" || in.Choices[0].Finish == "tool_calls"

	for _, c := range m.ToolCalls {
		s.Calls = append(s.Calls, c.Function)
	}

	if tokens := whole.Tokens(); s.ended && len(tokens) > 0 && len(tokens) == len(res.Reply.TokenIDs) &&
		!slices.Contains(tokens, "") {
		s.text, s.stop = strings.Join(tokens, ""), tokens[len(tokens)-1]
	}

	return s, true
}

// delivers reports whether the reply has the sampled calls.
func (s *sample) delivers(sampled []markup.Call) bool {
	return slices.EqualFunc(s.Calls, sampled, func(a, b markup.Call) bool {
		return a.Name == b.Name && sameJSON(a.Arguments, b.Arguments)
	})
}

// loses reports whether the reply has fewer calls than were sampled, or one of them not whole. Arguments may differ:
// parsers convert them by the schemas of tools.
func (s *sample) loses(sampled []markup.Call) bool {
	if len(s.Calls) < len(sampled) {
		return true
	}

	for n, c := range sampled {
		got := s.Calls[n]
		if got.Name == "" || !isObject(got.Arguments) || emptyObject(got.Arguments) && !emptyObject(c.Arguments) {
			return true
		}
	}

	return false
}

// suspicion is what a fault of the engine looks like, and what a policy can write.
func (s *sample) suspicion() engineFault {
	form := cmp.Or(markup.In(s.Text), markup.In(s.Reasoning))

	switch {
	case !s.ended:
	case len(s.Calls) == 0 && form != "":
		return engineFault{
			word: rollout.FaultMarkup,
			text: "the reply has no call, and its text has the mark of one in the form " + form,
		}
	case slices.ContainsFunc(s.Calls, func(c markup.Call) bool { return c.Name == "" }):
		return engineFault{word: rollout.FaultUnnamed, text: "a call has no name"}
	case slices.ContainsFunc(s.Calls, func(c markup.Call) bool { return !isObject(c.Arguments) }):
		return engineFault{
			word: rollout.FaultCut,
			text: "the arguments of a call are not a JSON object, though the reply was not cut off",
		}
	}

	return engineFault{}
}

func isObject(text string) bool { return rawjson.IsObject([]byte(text)) && json.Valid([]byte(text)) }

func emptyObject(text string) bool {
	return strings.Map(func(ch rune) rune {
		if strings.ContainsRune(" \t\r\n", ch) {
			return -1
		}

		return ch
	}, text) == "{}"
}

// sameJSON reports whether two texts are the same value.
func sameJSON(a, b string) bool {
	var x, y any

	return json.Unmarshal([]byte(a), &x) == nil && json.Unmarshal([]byte(b), &y) == nil &&
		jsonText(x) == jsonText(y)
}

// jsonText is a decoded value in one spelling.
func jsonText(value any) string {
	// decoded values always encode
	text, _ := json.Marshal(value)
	return string(text)
}
