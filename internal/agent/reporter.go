package agent

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"

	"github.com/rolloutd/rolloutd/internal/eventlog"
	"github.com/rolloutd/rolloutd/internal/jsonlimit"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// maxEventText bounds a text in an event, in bytes.
const maxEventText = 16 << 10

// Reporter writes what an agent says and does to the rollout's event log. Each event has a key, under which it is logged once: a Run that
// attaches to a working agent reports all of its session again. A nil *Reporter reports nothing. It is safe for concurrent use.
type Reporter struct{ log *eventlog.Log }

// NewReporter reports to a log, which may be nil.
func NewReporter(l *eventlog.Log) *Reporter { return &Reporter{l} }

// Text reports a text of a session, "" for the agent's own: EventText or EventThinking.
func (r *Reporter) Text(kind rollout.EventKind, key, session, said string) {
	if r == nil || said == "" {
		return
	}
	e := rollout.TextEvent{Stamp: r.log.Stamp(), SessionID: session, Text: said}
	if len(said) > maxEventText {
		e.Text, e.Bytes = strings.ToValidUTF8(said[:maxEventText], ""), len(said)
	}
	r.log.Append(kind, string(kind)+"/"+key, e)
}

// ToolStart reports that a tool call begins. call names the session, the call and the tool.
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

// ToolOutput reports what a running tool has written since the output before.
func (r *Reporter) ToolOutput(call rollout.ToolEvent, output string) {
	if r == nil || output == "" {
		return
	}
	call.Stamp = r.log.Stamp()
	call.Output, call.Bytes = headTail(output)
	r.log.Append(rollout.EventToolOutput, "", call)
}

// ToolEnd reports the end of a tool call; failed is the error of one that failed.
func (r *Reporter) ToolEnd(key string, call rollout.ToolEvent, output, failed string) {
	if r == nil {
		return
	}
	call.Stamp = r.log.Stamp()
	call.Output, call.Bytes = headTail(output)
	call.Error, _ = headTail(failed)
	r.log.Append(rollout.EventToolEnd, "end/"+key, call)
}

// headTail leaves out the middle of a text that is too long, and says how long it is.
func headTail(s string) (short string, whole int) {
	if len(s) <= maxEventText {
		return s, 0
	}
	const half = maxEventText / 2
	return strings.ToValidUTF8(s[:half], "") + "\n[…]\n" + strings.ToValidUTF8(s[len(s)-half:], ""), len(s)
}

// wellFormed says whether a tool's input is JSON that a reader can decode at no great cost.
func wellFormed(input json.RawMessage) bool {
	if len(input) > maxEventText || !json.Valid(input) {
		return false
	}
	_, err := io.Copy(io.Discard, jsonlimit.NewReader(bytes.NewReader(input), jsonlimit.Limits{Elements: 5_000, Depth: 32}))
	return err == nil
}
