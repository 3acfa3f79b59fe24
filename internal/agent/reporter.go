package agent

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"

	"github.com/rolloutd/rolloutd/internal/eventlog"
	"github.com/rolloutd/rolloutd/internal/input/jsoninput"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// maxEventText bounds a text in an event, in bytes.
const maxEventText = 16 << 10

// Reporter writes an agent's texts and tool calls to the rollout's event log. Events of the same key are
// logged once, because a Run that attaches to a running agent reports its whole session again. A nil
// *Reporter reports nothing. It is safe for concurrent use.
type Reporter struct{ log *eventlog.Log }

// NewReporter reports to a log, which may be nil.
func NewReporter(l *eventlog.Log) *Reporter { return &Reporter{l} }

// Text reports a text of kind EventText or EventThinking. session is "" for the agent's own session.
func (r *Reporter) Text(kind rollout.EventKind, key, session, text string) {
	if r == nil || text == "" {
		return
	}

	e := rollout.TextEvent{Stamp: r.log.Stamp(), SessionID: session, Text: text}
	if len(text) > maxEventText {
		e.Text, e.Bytes = strings.ToValidUTF8(text[:maxEventText], ""), len(text)
	}

	r.log.Append(kind, string(kind)+"/"+key, e)
}

// ToolStart reports the start of a tool call. call has the ids of the session and the call, and the tool's name.
func (r *Reporter) ToolStart(key string, call rollout.ToolEvent, input json.RawMessage) {
	if r == nil {
		return
	}

	call.Stamp, call.Input = r.log.Stamp(), input
	if !wellFormed(input) {
		call.Input, call.Bytes = json.RawMessage("{}"), len(input)
	}

	r.log.Append(rollout.EventToolStart, "start/"+key, call)
}

// ToolOutput reports the output of a running tool since the previous report.
func (r *Reporter) ToolOutput(call rollout.ToolEvent, output string) {
	if r == nil || output == "" {
		return
	}

	call.Stamp = r.log.Stamp()
	call.Output, call.Bytes = headTail(output)
	r.log.Append(rollout.EventToolOutput, "", call)
}

// ToolEnd reports the end of a tool call; errText is "" if the call succeeded.
func (r *Reporter) ToolEnd(key string, call rollout.ToolEvent, output, errText string) {
	if r == nil {
		return
	}

	call.Stamp = r.log.Stamp()
	call.Output, call.Bytes = headTail(output)
	call.Error, _ = headTail(errText)
	r.log.Append(rollout.EventToolEnd, "end/"+key, call)
}

// headTail leaves out the middle of a text above maxEventText. size is the length of a shortened text in bytes, else 0.
func headTail(s string) (short string, size int) {
	if len(s) <= maxEventText {
		return s, 0
	}

	const half = maxEventText / 2

	return strings.ToValidUTF8(s[:half], "") + "\n[…]\n" + strings.ToValidUTF8(s[len(s)-half:], ""), len(s)
}

// wellFormed reports whether a tool's input is JSON that is cheap to decode.
func wellFormed(input json.RawMessage) bool {
	if len(input) > maxEventText || !json.Valid(input) {
		return false
	}

	_, err := io.Copy(io.Discard, jsoninput.NewReader(bytes.NewReader(input), jsoninput.Limits{
		Elements: 5_000,
		Depth:    32,
	}))

	return err == nil
}
