package probe

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"sync"

	"github.com/rolloutd/rolloutd/internal/gateway/dialect"
	"github.com/rolloutd/rolloutd/internal/gateway/dialect/reply"
	"github.com/rolloutd/rolloutd/internal/gateway/upstream"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// Endpoint is an endpoint to probe.
type Endpoint struct {
	Model rollout.Model

	// the dialect of the agent's calls
	Dialect *dialect.Dialect
	// Ask makes one call, without retries.
	Ask func(context.Context, *dialect.Request) *upstream.Result
	// Prompt tokenises the prompt of a chat completion by a separate request; see proxy.
	Prompt func(context.Context, *dialect.Request) ([]int32, error)
}

// Bounds of the tokens and alternatives that probes ask for. OpenAI's Responses accepts no fewer tokens. A
// thinking model needs some before it calls a tool.
const (
	sampleTokens = 16
	toolTokens   = 512
	alternatives = 5
)

// Run makes the probe's calls, in parallel except for those with a prompt of ids. It never fails: a finding says what
// could not be determined and why. It skips the second temperature for an API without log probabilities, and the tool
// call for an API without tools.
func Run(ctx context.Context, e Endpoint) rollout.EndpointReport {
	one, two, tool := &answer{}, &answer{}, &answer{}

	var calls sync.WaitGroup
	calls.Go(func() { one = e.callModel(ctx, 1, sampleTokens, e.promptRequest("Endpoint probe: name a color.")) })

	if e.Dialect.HasLogprobs() {
		calls.Go(func() { two = e.callModel(ctx, 2, sampleTokens, e.promptRequest("Endpoint probe: name a color.")) })
	}

	if e.Dialect.API != reply.Completions {
		calls.Go(func() { tool = e.callModel(ctx, 1, toolTokens, e.withTool()) })
	}

	calls.Wait()

	defer release(one, two, tool)

	var r rollout.EndpointReport
	e.level(ctx, &r, one)

	if r.CaptureLevel == rollout.CaptureTokens || r.CaptureLevel == rollout.CaptureLogprobs {
		e.mode(&r, one, two)
	}

	if r.CaptureLevel == rollout.CaptureTokens && e.Dialect.API == reply.Chat {
		e.promptIDs(ctx, &r)
	}

	if tool.Result != nil {
		e.tools(&r, tool)
	}

	for _, a := range []*answer{one, two, tool} {
		for _, fix := range a.fixes() {
			if !slices.Contains(r.ParamFixes, fix) {
				r.ParamFixes = append(r.ParamFixes, fix)
			}
		}
	}

	return r
}

// release releases the memory of answers.
func release(all ...*answer) {
	for _, a := range all {
		if a.Result != nil {
			a.Memory.Release()
		}
	}
}

// answer is the result of one call.
type answer struct {
	request *dialect.Request
	*upstream.Result
}

func (a *answer) fixes() []string {
	if a.request == nil || a.Result == nil || a.Problem != nil {
		return nil
	}

	return a.request.Fixes
}

// callModel makes one call as a rollout would, with the policy's sampling at that temperature.
func (e Endpoint) callModel(ctx context.Context, temperature float64, tokens int, request map[string]any) *answer {
	r, err := e.read(temperature, tokens, request)
	if err != nil {
		return &answer{Result: &upstream.Result{Problem: &upstream.Problem{
			Class: upstream.Rejected,
			Text:  err.Error(),
		}}}
	}

	return &answer{r, e.Ask(ctx, r)}
}

// read makes a request what a rollout sends.
func (e Endpoint) read(temperature float64, tokens int, request map[string]any) (*dialect.Request, error) {
	m := e.Model
	m.Sampling = (&rollout.Sampling{Temperature: &temperature, MaxTokens: &tokens}).ForTraining()
	m.TopLogprobs, m.MaxTokensCap = alternatives, 0
	// strings and numbers always encode
	body, _ := json.Marshal(request)

	return dialect.Read(e.Dialect, http.Header{}, body, m, true)
}

// promptIDs finds whether chat completions take the ids of their prompt: those of one question are sent with the
// messages of another, and the endpoint names the ids of the prompt that it used.
func (e Endpoint) promptIDs(ctx context.Context, r *rollout.EndpointReport) {
	other, err := e.read(1, sampleTokens, e.promptRequest("Endpoint probe: name a fruit."))
	if err != nil {
		return
	}

	ids, err := e.Prompt(ctx, other)
	if err != nil {
		return
	}

	for _, by := range []rollout.PromptMember{rollout.PromptKVTransfer, rollout.PromptInputIDs} {
		// as in ask, where it was read before
		request, _ := e.read(1, sampleTokens, e.promptRequest("Endpoint probe: name a color."))
		request.Prompt = dialect.PromptIDs{IDs: ids, By: by}

		res := e.Ask(ctx, request)
		takes := res.Problem == nil && slices.Equal(res.Reply.PromptTokenIDs, ids)
		res.Memory.Release()

		if takes {
			r.PromptIDs = by
			return
		}
	}
}
