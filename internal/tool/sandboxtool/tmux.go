package sandboxtool

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
	"github.com/rolloutd/rolloutd/internal/tool"
)

// tmux is a tool that types keys into the shell and reads its screen. The image needs no tmux.
type tmux struct{}

// Definition implements tool.Tool.
func (tmux) Definition() tool.Definition {
	return definition(
		"tmux",
		"Use the stateful shell as a terminal: start it, send keys to the program in it, capture its screen, "+
			"stream its recording (asciicast v2), stop it.",
		`"action":{"type":"string","enum":["start","send_keys","stream","stop","capture"]},`+
			`"keys":{"anyOf":[{"type":"string"},{"type":"array","items":{"type":"string"}}],"description":"Text or tmux key names such as Enter, C-c, Up; a list is sent in order"},`+
			`"block":{"type":"boolean","description":"Wait until the shell is at its prompt again"},`+
			`"min_wait_s":{"type":"number","minimum":0},"max_wait_s":{"type":"number","minimum":0},`+
			`"capture_entire":{"type":"boolean","description":"Capture all that was printed, not only the screen"},`+
			`"max_bytes":{"type":"integer","minimum":1},"reset":{"type":"boolean","description":"Stream from the start"},`+
			`"pane_width":{"type":"integer","minimum":20},"pane_height":{"type":"integer","minimum":10}`,
		"action",
	)
}

type tmuxArguments struct {
	Action        string
	Keys          keyList
	Block         bool
	MinWaitS      float64 `json:"min_wait_s"`
	MaxWaitS      float64 `json:"max_wait_s"`
	CaptureEntire bool    `json:"capture_entire"`
	MaxBytes      float64 `json:"max_bytes"`
	Reset         bool
	PaneWidth     float64 `json:"pane_width"`
	PaneHeight    float64 `json:"pane_height"`
}

// keyList is one key or a list of them.
type keyList []string

// UnmarshalJSON implements json.Unmarshaler.
func (k *keyList) UnmarshalJSON(text []byte) error {
	if len(text) > 0 && text[0] == '"' {
		*k = keyList{""}
		return json.Unmarshal(text, &(*k)[0])
	}

	return json.Unmarshal(text, (*[]string)(k))
}

// Call implements tool.Tool.
func (tmux) Call(ctx context.Context, env tool.Env, c tool.Call) (tool.Result, error) {
	var a tmuxArguments
	if err := json.Unmarshal(c.Arguments, &a); err != nil {
		return tool.Failed(err.Error()), nil
	}

	atMost := seconds(a.MaxWaitS, time.Minute)
	minWait := min(seconds(a.MinWaitS, 0), atMost)
	call := wire.PTYCall{
		Keys:          a.Keys,
		Block:         a.Block,
		MinWaitMillis: minWait.Milliseconds(),
		TimeoutMillis: atMost.Milliseconds(),
		Entire:        a.CaptureEntire,
		MaxBytes:      bounded(a.MaxBytes),
		Reset:         a.Reset,
		Cols:          bounded(a.PaneWidth),
		Rows:          bounded(a.PaneHeight),
	}

	call.Action = map[string]string{"send_keys": wire.PTYKeys, "capture": wire.PTYCapture}[a.Action]
	if call.Action == "" {
		call.Action = a.Action
	}

	if call.Action == wire.PTYKeys && strings.Join(a.Keys, "") == "" {
		return tool.Failed("send_keys needs keys"), nil
	}

	answer, message, err := ptyCall(ctx, env, c.ID, call, atMost+minWait)
	if err != nil || message != "" {
		return tool.Failed(message), err
	}

	return tmuxResult(a, answer, atMost), nil
}

// bounded returns a policy's number as an int; sandboxd checks the real bounds.
func bounded(n float64) int { return int(min(max(n, 0), 1<<30)) }

func tmuxResult(a tmuxArguments, answer wire.PTYAnswer, atMost time.Duration) tool.Result {
	f := map[string]any{"stateful": true}
	r := tool.Result{}

	switch a.Action {
	case "start":
		r.Content = "started"
		f["pane_width"], f["pane_height"] = answer.Cols, answer.Rows
	case "stop":
		r.Content = "stopped"
	case "send_keys":
		r.Content, f["blocked"] = "ok", a.Block
		if answer.TimedOut {
			r = tool.Failed(
				fmt.Sprintf("the shell was not at its prompt after %gs; the program in it still runs",
					atMost.Seconds()),
			)
		}
	case "capture":
		r.Content, f["capture_entire"] = string(answer.Text), a.CaptureEntire
		if a.CaptureEntire {
			r.Content = plainOutput(answer.Output)
		}
	case "stream":
		r.Content, f["stream"], f["offset"] = string(answer.Text), true, answer.Offset
	}

	if answer.Ended && a.Action != "stop" {
		f["ended"] = true
	}

	r.Data = data(f)

	return r
}
