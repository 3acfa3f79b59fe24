package scripted

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"time"

	"github.com/rolloutd/rolloutd/internal/input/yamlinput"
	"go.yaml.in/yaml/v3"
)

// Scripts are tried in order: the first whose Match is found in the instruction is played.
type Scripts []Script

// Script is one conversation, from the side of the model.
type Script struct {
	Name string `yaml:"name"`
	// Match is a part of the instruction; empty matches any.
	Match string `yaml:"match"`
	// Hermes plays the script for agents that list their tools in the system prompt, within <tools>, and
	// only for them: thoughts and tool calls are written into the text, in the tags that such agents read.
	Hermes bool `yaml:"hermes"`
	// Loop starts again after the last turn. Without it, calls after the last turn get an empty reply with
	// finish reason "stop", on which agents end.
	Loop  bool   `yaml:"loop"`
	Pace  Pace   `yaml:"pace"`
	Turns []Turn `yaml:"turns"`
}

// Turn is one reply.
type Turn struct {
	Reasoning string `yaml:"reasoning"`
	Text      string `yaml:"text"`

	// tokens of made-up prose after Text; for load
	Filler    int        `yaml:"filler"`
	ToolCalls []ToolCall `yaml:"tool_calls"`
	// FinishReason defaults to "tool_calls" where there are any, else to "stop".
	FinishReason string `yaml:"finish_reason"`

	// instead of the script's
	Pace   *Pace   `yaml:"pace"`
	Faults []Fault `yaml:"faults"`
}

// ToolCall is one call; arguments that are a string are sent unchanged, even if they are not JSON.
type ToolCall struct {
	Name      string `yaml:"name"`
	Arguments any    `yaml:"arguments"`
}

// Pace is the speed of a reply. The zero value sends it at once.
type Pace struct {
	// delay before the headers
	Delay time.Duration `yaml:"delay"`

	// between chunks
	ChunkDelay      time.Duration `yaml:"chunk_delay"`
	TokensPerSecond float64       `yaml:"tokens_per_second"`

	// 0: one, as vLLM does
	TokensPerChunk int `yaml:"tokens_per_chunk"`
}

// Fault is sent instead of the reply, or breaks it. The faults of a turn are sent one after the other, each
// Times times for one session; Times 0 is always. After all of them, the turn is played.
type Fault struct {
	Times int `yaml:"times"`

	// answer with this HTTP status
	Status int `yaml:"status"`

	// with Status: the header, in whole seconds
	RetryAfter time.Duration `yaml:"retry_after"`

	// with Status: the error's text
	Message string `yaml:"message"`

	// with Status: the text repeats the caller's API key
	EchoKey bool `yaml:"echo_key"`

	// before the headers; alone: the reply is late, but whole
	Delay time.Duration `yaml:"delay"`

	// no headers until the caller leaves
	Hang bool `yaml:"hang"`

	// nothing more after so many chunks, until the caller leaves
	HangAfter *int `yaml:"hang_after"`

	// connection closed after so many chunks
	CutAfter *int `yaml:"cut_after"`

	// an error event after so many chunks
	ErrorAfter *int `yaml:"error_after"`

	// [DONE] without a finish reason
	NoFinish bool `yaml:"no_finish"`

	// 200 with a body that is neither a stream nor a completion
	NotSSE bool `yaml:"not_sse"`

	// 200 with a stream of events that are not JSON
	Garbage bool `yaml:"garbage"`
}

// hermes is the turn with its thoughts and tool calls in the text, as a model without tools in its API writes them.
func (t Turn) hermes() Turn {
	var text strings.Builder
	if t.Reasoning != "" {
		text.WriteString("<think>\n" + strings.TrimSpace(t.Reasoning) + "\n</think>\n")
	}

	text.WriteString(t.Text)

	for _, call := range t.ToolCalls {
		if s := text.String(); s != "" && !strings.HasSuffix(s, "\n") {
			text.WriteByte('\n')
		}
		// valid: checked by Validate
		arguments, _ := call.json()
		text.WriteString("<tool_call>\n" + callHead(call.Name) + arguments + "}\n</tool_call>")
	}

	if t.FinishReason == "" {
		t.FinishReason = "stop"
	}

	t.Reasoning, t.Text, t.ToolCalls = "", text.String(), nil

	return t
}

//go:embed demo.yaml
var demo []byte

// Default returns the scripts of the demo tasks in examples/, and a polite answer to anything else.
func Default() Scripts {
	scripts, err := Load(bytes.NewReader(demo))
	if err != nil {
		// a test loads the scripts
		panic(fmt.Sprintf("embedded demo scripts: %v", err))
	}

	return scripts
}

// Load reads YAML: one script, or a list of scripts. It reports every problem it finds, each with its place.
func Load(r io.Reader) (Scripts, error) {
	text, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("read script: %w", err)
	}

	scripts, err := decode(text)
	if err != nil {
		return nil, fmt.Errorf("script: %w", err)
	}

	if err := scripts.Validate(); err != nil {
		return nil, fmt.Errorf("script: %w", err)
	}

	return scripts, nil
}

func decode(text []byte) (Scripts, error) {
	var shape yaml.Node
	if err := yaml.Unmarshal(text, &shape); err != nil {
		return nil, err
	}

	if len(shape.Content) == 0 {
		return nil, errors.New("must be one script (name, match, turns) or a list of them, got nothing")
	}

	var (
		scripts Scripts
		err     error
	)
	if shape.Content[0].Kind == yaml.SequenceNode {
		err = strict(text, &scripts)
	} else {
		scripts = make(Scripts, 1)
		err = strict(text, &scripts[0])
	}

	return scripts, err
}

func strict(text []byte, into any) error {
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)

	if err := d.Decode(into); err != nil {
		return yamlinput.File{
			Type:  reflect.TypeFor[Script](),
			Noun:  "a script",
			Shape: "a script (name, match, turns)",
		}.Explain(err)
	}

	if err := d.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return errors.New("more than one YAML document: put the scripts into one list")
	}

	return nil
}
