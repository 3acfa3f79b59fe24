package gateway

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"slices"

	"github.com/rolloutd/rolloutd/internal/continuation"
	"github.com/rolloutd/rolloutd/internal/gateway/dialect"
	"github.com/rolloutd/rolloutd/internal/gateway/dialect/render"
	"github.com/rolloutd/rolloutd/internal/gateway/dialect/reply"
	"github.com/rolloutd/rolloutd/internal/gateway/upstream"
	"github.com/rolloutd/rolloutd/internal/rawjson"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/trace"
)

// continued makes the call: by the ids of the conversation that it continues, if there are any.
func (r *route) continued(ctx context.Context, c *call) *upstream.Result {
	if !r.continuable(c.request) {
		return r.called(ctx, c)
	}

	plan := r.plan(ctx, c)
	if plan.Fallback != "" && r.continuation == rollout.ContinuationRequired {
		return &upstream.Result{Problem: refusal(plan.Fallback)}
	}

	c.request.Fallback = plan.Fallback
	res := r.called(ctx, c)

	if r.refusesIDs(c.request, res) && ctx.Err() == nil {
		// the messages may be shorter, or another engine may be at the address
		res.Memory.Release()

		c.request.Prompt, c.request.Fallback = dialect.PromptIDs{}, continuation.IDsRefused+res.Problem.Text
		res = r.called(ctx, c)
	}

	if res.Problem == nil {
		r.noteReply(c, plan, res)
	}

	return res
}

// refusal ends a rollout whose calls must continue by ids.
func refusal(reason string) *upstream.Problem {
	return &upstream.Problem{
		Class: upstream.Refused,
		Text:  "continuation " + string(rollout.ContinuationRequired) + ": " + reason,
	}
}

// continuable reports whether a call may continue a conversation by ids: of the agent or a subagent, and its endpoint
// names ids on this API. A call from the host that gives a reason continues by messages.
func (r *route) continuable(a *dialect.Request) bool {
	if r.continuation == rollout.ContinuationMessages || r.trace == nil || a.API != reply.Chat || !a.NeedsIDs ||
		!isTurn(a.Kind) ||
		a.Fallback != "" {
		return false
	}

	known := r.probeReport()

	return known.CaptureLevel == "" || known.PromptIDs != "" || r.continuation == rollout.ContinuationRequired
}

// refusesIDs reports whether the endpoint refused a call that has its prompt as ids.
func (r *route) refusesIDs(a *dialect.Request, res *upstream.Result) bool {
	p := res.Problem

	return a.Prompt.IDs != nil && r.continuation != rollout.ContinuationRequired && p != nil &&
		(p.Class == upstream.Rejected || p.Class == upstream.Refused)
}

// plan finds the ids of the call's prompt. Without a plan the messages are sent.
func (r *route) plan(ctx context.Context, c *call) continuation.Plan {
	// those of a plan whose reply was set aside
	c.request.Prompt = dialect.PromptIDs{}

	r.regrown.Do(r.regrow)

	render, err := r.renderOf(c.request)
	if err != nil {
		return continuation.Plan{}
	}

	digest, messages := promptParts(c.request.Body)

	by := r.takesIDs()
	if by == "" && r.continuation != rollout.ContinuationRequired {
		// a probe may yet find it
		return r.forest.Recorded(digest, messages)
	}

	// a paused endpoint tokenises nothing
	if c.progress.Resumed(ctx, r.admission) != nil {
		return r.forest.Recorded(digest, messages)
	}

	ctx, cancel := context.WithTimeout(ctx, promptTime)
	defer cancel()

	plan := r.forest.Plan(ctx, render, digest, messages)
	if plan.Prompt != nil {
		c.request.Prompt = dialect.PromptIDs{IDs: plan.Prompt, By: cmp.Or(by, rollout.PromptKVTransfer)}
		r.noteTakesIDs(c.request.Prompt.By)
	}

	return plan
}

// takesIDs returns how the endpoint takes the ids of a prompt; "": it does not, or it is not known.
func (r *route) takesIDs() rollout.PromptMember {
	if known := r.probeReport(); known.CaptureLevel != "" {
		return known.PromptIDs
	}

	r.mu.Lock()
	defer r.mu.Unlock()

	return r.journal.PromptIDs
}

func (r *route) noteTakesIDs(by rollout.PromptMember) {
	r.mu.Lock()
	defer r.mu.Unlock()

	if r.journal.PromptIDs != by {
		r.journal.PromptIDs = by
		r.saveOrLog("how the endpoint takes ids")
	}
}

// noteReply adds the call to the conversations, and compares the prompt that the endpoint used with the one sent.
func (r *route) noteReply(c *call, plan continuation.Plan, res *upstream.Result) {
	if sent := c.request.Prompt.IDs; sent != nil && !slices.Equal(sent, res.Reply.PromptTokenIDs) {
		r.forest.Stop(continuation.IDsIgnored)
		c.request.Fallback = continuation.IDsIgnored

		if r.continuation == rollout.ContinuationRequired {
			res.Problem = refusal(continuation.IDsIgnored)
			return
		}
	}

	switch {
	case c.request.Fallback != "":
		r.report.continuation.WithLabelValues(r.Model.Label(), continuation.WordOf(c.request.Fallback)).Inc()
	case c.request.Prompt.IDs != nil:
		r.report.continuation.WithLabelValues(r.Model.Label(), "ids").Inc()
	}

	answer := replyOf(c.request.Body, res.Raw, res.Reply.PromptTokenIDs, res.Reply.TokenIDs)
	answer.Turn, answer.Rendered = c.turn, c.request.Prompt.IDs == nil
	r.forest.Add(plan, answer)
}

// regrow adds the recorded calls to the conversations, after a restart.
func (r *route) regrow() {
	for _, e := range r.trace.Entries() {
		if !e.Whole || !isTurn(e.Kind) {
			continue
		}

		rec, err := r.trace.Read(e)
		if err != nil {
			r.log.Error("turn not continued", "turn", e.Turn, "error", err)
			continue
		}

		if rec.API == string(reply.Chat) {
			r.regrowOne(rec)
		}
	}
}

func (r *route) regrowOne(rec *trace.Record) {
	digest, messages := promptParts(rec.Request)
	answer := replyOf(rec.Request, rec.Reply, rec.PromptTokenIDs, rec.TokenIDs)
	answer.Turn = rec.Turn
	r.forest.Add(r.forest.Recorded(digest, messages), answer)
}

// promptMembers are the members of a chat completion that make its prompt, beside the messages.
func promptMembers() []string {
	return []string{
		"model", "tools", "tool_choice", "functions", "chat_template_kwargs", "reasoning_effort", "documents",
		"response_format",
	}
}

// promptParts returns the messages of a chat completion, and a digest of all else that makes its prompt.
func promptParts(body []byte) (continuation.Digest, []json.RawMessage) {
	sum := sha256.New()

	for _, key := range promptMembers() {
		// never fails
		_, _ = sum.Write(rawjson.MemberOf(body, key))
		_, _ = sum.Write([]byte{0})
	}

	var messages []json.RawMessage

	list := rawjson.Cursor{Src: rawjson.MemberOf(body, "messages")}
	for range list.Elements {
		messages = append(messages, list.Skip())
	}

	return continuation.Digest(sum.Sum(nil)), messages
}

// replyOf reads the reply to a chat completion; zero: it cannot be continued, since it is not one or has no ids.
func replyOf(request, raw []byte, prompt, sampled []int32) continuation.Reply {
	whole, err := render.View{API: reply.Chat}.Assemble(raw)
	if err != nil || len(prompt) == 0 || len(sampled) == 0 {
		return continuation.Reply{}
	}

	var in struct {
		Choices []struct {
			Message json.RawMessage `json:"message"`
			Finish  string          `json:"finish_reason"`
			Stop    json.RawMessage `json:"stop_reason"`
		} `json:"choices"`
	}
	if json.Unmarshal(whole.JSON(), &in) != nil || len(in.Choices) == 0 {
		return continuation.Reply{}
	}

	one, last := in.Choices[0], sampled[len(sampled)-1]
	out := continuation.Reply{
		Message: one.Message,
		Prompt:  prompt,
		Sampled: sampled,
		End:     continuation.End{Last: last, Stopped: true},
	}

	var token int32

	switch stop := string(one.Stop); {
	case one.Finish != "stop" && one.Finish != "tool_calls":
		out.Unfit = continuation.Truncated
	case !absent(rawjson.MemberOf(request, "stop")):
		out.Unfit = continuation.StopText
	case !absent(one.Stop) && (json.Unmarshal([]byte(stop), &token) != nil || token != last):
		out.Unfit = continuation.StopText
	}

	return out
}

// absent reports whether a member has no value.
func absent(raw []byte) bool {
	return len(raw) == 0 || string(raw) == "null" || string(raw) == "[]"
}
