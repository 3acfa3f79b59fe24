package probe

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"sync"

	"github.com/rolloutd/rolloutd/internal/gateway/dialect"
	"github.com/rolloutd/rolloutd/internal/gateway/upstream"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// Endpoint is what is probed.
type Endpoint struct {
	Model rollout.Model
	// Ask makes one call, without retries.
	Ask func(context.Context, *dialect.Request) *upstream.Result
	// Prompt tokenises the prompt of a request beside the calls; see proxy.
	Prompt func(context.Context, *dialect.Request) ([]int32, error)
}

// Tokens that the probes ask for at most, and alternatives of each. A model that thinks needs some before it calls a tool.
const (
	sampleTokens = 8
	toolTokens   = 512
	alternatives = 5
)

// Run makes the probe's calls, all at once. It never fails: what could not be found out is not known, and a finding says why.
func Run(ctx context.Context, e Endpoint) rollout.EndpointReport {
	var one, two, tool *answer
	var calls sync.WaitGroup
	calls.Go(func() { one = e.ask(ctx, 1, sampleTokens, say("Endpoint probe: name a color.")) })
	calls.Go(func() { two = e.ask(ctx, 2, sampleTokens, say("Endpoint probe: name a color.")) })
	calls.Go(func() { tool = e.ask(ctx, 1, toolTokens, withTool()) })
	calls.Wait()
	var r rollout.EndpointReport
	e.level(ctx, &r, one)
	if r.CaptureLevel == rollout.CaptureTokens || r.CaptureLevel == rollout.CaptureLogprobs {
		mode(&r, one, two)
	}
	tools(&r, tool)
	for _, a := range []*answer{one, two, tool} {
		for _, fix := range a.fixes() {
			if !slices.Contains(r.ParamFixes, fix) {
				r.ParamFixes = append(r.ParamFixes, fix)
			}
		}
	}
	return r
}

// answer is what came of one call.
type answer struct {
	request *dialect.Request
	*upstream.Result
}

func (a *answer) fixes() []string {
	if a.request == nil || a.Problem != nil {
		return nil
	}
	return a.request.Fixes
}

// ask makes one call as calls of a rollout are made, with the sampling of the policy at that temperature.
func (e Endpoint) ask(ctx context.Context, temperature float64, tokens int, request map[string]any) *answer {
	m := e.Model
	m.Sampling = (&rollout.Sampling{Temperature: &temperature, MaxTokens: &tokens}).ForTraining()
	m.TopLogprobs, m.MaxTokensCap = alternatives, 0
	body, _ := json.Marshal(request) // strings and numbers always encode
	r, err := dialect.Read(dialect.All()[0], http.Header{}, body, m, true)
	if err != nil {
		return &answer{Result: &upstream.Result{Problem: &upstream.Problem{Class: upstream.Rejected, Text: err.Error()}}}
	}
	return &answer{r, e.Ask(ctx, r)}
}

func say(text string) map[string]any {
	return map[string]any{"messages": []map[string]string{{"role": "user", "content": text}}}
}

func withTool() map[string]any {
	request := say("Endpoint probe: call the tool bash with the command `true`.")
	request["tools"] = []any{map[string]any{"type": "function", "function": map[string]any{
		"name": "bash", "description": "Runs a command.",
		"parameters": map[string]any{
			"type": "object", "properties": map[string]any{"command": map[string]string{"type": "string"}}, "required": []string{"command"},
		},
	}}}
	return request
}
