package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/rolloutd/rolloutd/internal/cli/client"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/text"
	"github.com/rolloutd/rolloutd/internal/trajectory/transcript"
)

// maxOutput bounds a text of the conversation in a view of all turns, in characters.
const maxOutput = 4000

// View writes a rollout that is done as the page shows it: the conversation, the verifier, the result.
func View(ctx context.Context, c *client.Client, id string, w io.Writer) error {
	r, err := c.Stored(ctx, id)
	if err != nil {
		return err
	}

	v := newView(w)
	v.steps = r.Steps

	turns, err := allTurns(ctx, c, id)
	if err != nil {
		return err
	}

	if !hasUser(turns) {
		if v.record, err = recordOf(ctx, c, id); err != nil {
			return err
		}
	}

	for _, t := range turns {
		v.turn(t)
	}

	// an episode has no model call: its record is all
	for len(turns) == 0 && len(v.record) > 0 {
		v.writeUserMessages()
		v.called()
	}

	v.verifier(r)
	fmt.Fprintln(w, "\n── result")
	Table(w, r)

	return nil
}

// ViewTurn writes one turn of a rollout that is done, with all texts whole.
func ViewTurn(ctx context.Context, c *client.Client, id string, turn int, w io.Writer) error {
	page, err := c.Turns(ctx, id, turn-1)
	if err != nil {
		return err
	}

	if len(page.Turns) == 0 || page.Turns[0].Turn != turn {
		return fault.New(fault.NotFound, "the rollout has no turn %d", turn)
	}

	t := page.Turns[0]
	for i, p := range t.Parts {
		if p.Bytes == 0 {
			continue
		}

		whole, err := c.Part(ctx, id, turn, i)
		if err != nil {
			return err
		}

		t.Parts[i].Text, t.Parts[i].Bytes = whole, 0
	}

	v := newView(w)
	v.full = true
	v.turn(t)

	return nil
}

// allTurns returns all turns of a rollout, with the beginnings of long texts. One without a model call has no trace.
func allTurns(ctx context.Context, c *client.Client, id string) (turns []transcript.Turn, err error) {
	for after := 0; ; {
		page, err := c.Turns(ctx, id, after)
		if after == 0 && fault.Is(err, fault.NotFound) {
			return nil, nil
		}

		if err != nil {
			return nil, err
		}

		turns = append(turns, page.Turns...)

		if page.Next <= after {
			return turns, nil
		}

		after = page.Next
	}
}

func hasUser(turns []transcript.Turn) bool {
	for _, t := range turns {
		for _, p := range t.Parts {
			if p.Kind == transcript.User {
				return true
			}
		}
	}

	return false
}

// view writes a conversation. The texts are of an agent, a task and an endpoint: all are escaped.
type view struct {
	w     io.Writer
	steps []rollout.StepResult

	// the agent's own record, for an agent that continues by token ids and sends no messages
	record []recorded

	// texts are not shortened
	full bool

	// names of the tools that were called, by the id of the call
	tools map[string]string

	// the step of the latest turn, from 0; -1: none
	step int
}

func newView(w io.Writer) *view { return &view{w: w, tools: map[string]string{}, step: -1} }

// turn writes a model call. Results of tools stand before it, after the turn that called them.
func (v *view) turn(t transcript.Turn) {
	parts := t.Parts
	for len(parts) > 0 && parts[0].Kind == transcript.ToolResult {
		v.part(parts[0])
		parts = parts[1:]
	}

	v.enterStep(t)
	fmt.Fprintf(v.w, "\n── turn %d  %s\n", t.Turn, plain(factsOf(t)))

	for _, warning := range warningsOf(t) {
		v.row("!", warning)
	}

	replied := t.Kind == rollout.KindAgent && t.Broken == "" && t.Delivered
	if replied {
		v.writeUserMessages()
	}

	for _, p := range parts {
		v.part(p)
	}

	if t.PartsOmitted > 0 {
		v.row("…", fmt.Sprintf("%d more messages: the trace has them", t.PartsOmitted))
	}

	if replied {
		v.called()
	}
}

// enterStep writes a heading where a step of the task begins. The turns of a later step name its attempt.
func (v *view) enterStep(t transcript.Turn) {
	if len(v.steps) == 0 {
		return
	}

	of, attempt := 0, 0
	if n, _ := fmt.Sscanf(t.Lineage, "step%d.", &attempt); n == 1 {
		for i, s := range v.steps {
			if s.Attempt == attempt {
				of = i
			}
		}
	}

	if of != v.step {
		v.step = of
		v.stepHeading(of)
	}
}

func (v *view) stepHeading(n int) {
	fmt.Fprintf(v.w, "\n══ step %d %s: %s\n", n+1, plain(v.steps[n].Name), ofStep(v.steps[n]))
}

// factsOf formats what a model call took.
func factsOf(t transcript.Turn) string {
	facts := []string{fmt.Sprintf("%.1f s", t.LatencyS)}
	if t.Kind != rollout.KindAgent {
		facts = append([]string{string(t.Kind)}, facts...)
	}

	if t.Usage.PromptTokens+t.Usage.CompletionTokens > 0 {
		facts = append(facts, fmt.Sprintf("%d + %d tokens", t.Usage.PromptTokens, t.Usage.CompletionTokens))
	}

	if t.FinishReason != "" {
		facts = append(facts, t.FinishReason)
	}

	if !t.Train {
		facts = append(facts, "not trained")
	}

	return strings.Join(facts, ", ")
}

// warningsOf says what is unusual about a turn.
func warningsOf(t transcript.Turn) (warnings []string) {
	if t.Broken != "" {
		warnings = append(warnings, "no complete reply: "+t.Broken)
	} else if !t.Delivered {
		warnings = append(warnings, "the reply did not reach the agent")
	}

	if b := t.PrefixBreak; b != nil {
		warnings = append(warnings, fmt.Sprintf("prefix break at token %d after turn %d", b.At, b.AfterTurn))
	}

	warnings = append(warnings, t.Flaws...)

	if t.Constrained != "" {
		warnings = append(warnings, "sampled under "+t.Constrained)
	}

	if t.Repaired != "" {
		warnings = append(warnings, "reply repaired: "+t.Repaired)
	}

	if t.Fallback != "" {
		warnings = append(warnings, t.Fallback)
	}

	if t.UpstreamTries > 1 {
		warnings = append(warnings, fmt.Sprintf("%d tries", t.UpstreamTries))
	}

	return warnings
}

// part writes a text of a turn.
func (v *view) part(p transcript.Part) {
	switch p.Kind {
	case transcript.ToolCall:
		v.tools[p.CallID] = p.Name
		v.row(p.Name, v.shorten(callText(p.Text), p.Bytes))
	case transcript.ToolResult:
		v.row(joined(" ", "→", v.tools[p.CallID]), v.shorten(p.Text, p.Bytes))
	case transcript.System:
		v.row(string(p.Kind), v.fold(p))
	case transcript.Text:
		v.row("", v.shorten(p.Text, p.Bytes))
	default:
		v.row(string(p.Kind), v.shorten(p.Text, p.Bytes))
	}
}

// fold returns the first line of a system prompt.
func (v *view) fold(p transcript.Part) string {
	if v.full {
		return p.Text
	}

	first, rest, more := strings.Cut(strings.TrimSpace(p.Text), "\n")
	if !more {
		return v.shorten(first, p.Bytes)
	}

	return fmt.Sprintf("%s\n[%d more lines: --turn shows them]", text.Head(first, maxDetail), strings.Count(rest, "\n")+1)
}

// shorten returns the beginning of a text. Bytes is the length of the whole if the text is not all of it, else 0.
func (v *view) shorten(s string, bytes int) string {
	if v.full {
		return s
	}

	head := text.Head(s, maxOutput)
	if len(head) == len(s) && bytes == 0 {
		return s
	}

	return fmt.Sprintf("%s\n[%d bytes in all: --turn shows them]", head, max(bytes, len(s)))
}

// row writes a text beside a word that says what it is.
func (v *view) row(name, value string) {
	const column = "             "

	if strings.TrimSpace(value) != "" || name != "" {
		fmt.Fprintln(v.w, strings.TrimRight(fmt.Sprintf("  %-10s %s", plain(name), block(value, column)), " "))
	}
}

// recorded is a message of an agent's record, as OpenCode gives them.
type recorded struct {
	Info struct {
		Role   string
		System string
	}
	Parts []struct {
		Type   string
		Text   string
		Tool   string
		CallID string `json:"callID"`
		State  struct {
			Input  json.RawMessage
			Output string
			Error  string
		}
	}
}

// recordOf returns an agent's record. A command has none, and a message of another form is left out.
func recordOf(ctx context.Context, c *client.Client, id string) (record []recorded, err error) {
	t, err := c.Messages(ctx, id)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return nil, err
	}

	for _, raw := range t.Messages {
		var m recorded
		if json.Unmarshal(raw, &m) == nil {
			record = append(record, m)
		}
	}

	return record, nil
}

// writeUserMessages writes the messages of the record that came before the next reply.
func (v *view) writeUserMessages() {
	for len(v.record) > 0 && v.record[0].Info.Role == "user" {
		m := v.record[0]
		v.record = v.record[1:]

		if m.Info.System != "" {
			v.part(transcript.Part{Kind: transcript.System, Text: m.Info.System})
		}

		for _, p := range m.Parts {
			if p.Type == "text" {
				v.part(transcript.Part{Kind: transcript.User, Text: p.Text})
			}
		}
	}
}

// called writes the tool calls of the next reply in the record, with their results.
func (v *view) called() {
	if len(v.record) == 0 {
		return
	}

	m := v.record[0]
	v.record = v.record[1:]

	for _, p := range m.Parts {
		if p.Type == "tool" {
			v.part(transcript.Part{Kind: transcript.ToolCall, CallID: p.CallID, Name: p.Tool, Text: string(p.State.Input)})
			v.part(transcript.Part{Kind: transcript.ToolResult, CallID: p.CallID, Text: joined("\n", p.State.Output, p.State.Error)})
		}
	}
}
