package markup

import (
	"cmp"
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"github.com/rolloutd/rolloutd/internal/rawjson"
)

// Call is a call as it was sampled.
type Call struct {
	Name string

	// a JSON object
	Arguments string
}

// Way is how a reply is written that ends with plain calls.
type Way struct {
	Form string

	// Thought: there is a thought before. Text: there is a text before. Several: there is more than one call.
	Thought, Text, Several bool
}

// maxPlain bounds a plain call, in bytes.
const maxPlain = 64 << 10

// Plain reads the calls at the end of a sampled text; stop is the text of its last token. It reports false unless all
// of these hold, so that no policy can write a plain call that a correct parser may refuse:
//
//   - The text has the marks of one form. Each opens a whole call. After the calls comes at most the token with which
//     the model stopped, and before them no thought that is open.
//   - Each call is of one of the tools, and has a name and arguments, in this order, and nothing else.
//   - The arguments are an object, and have nothing on which readers of JSON differ.
func Plain(sampled, stop string, tools []string) ([]Call, Way, bool) {
	all := formsIn(sampled)
	if len(all) != 1 || all[0].unread {
		return nil, Way{}, false
	}

	f := all[0]

	before, rest, ok := f.split(sampled, stop)
	if !ok {
		return nil, Way{}, false
	}

	var calls []Call

	for rest != "" {
		call, after, ok := f.next(rest)
		if !ok || !slices.Contains(tools, call.Name) || !isPlain(call.Arguments) {
			return nil, Way{}, false
		}

		calls, rest = append(calls, call), strings.TrimSpace(after)
	}

	way, ok := wayOf(f, before)
	way.Several = len(calls) > 1

	return calls, way, ok && len(calls) > 0
}

// split returns what stands before the calls, and the calls without what stands around all of them.
func (f form) split(sampled, stop string) (before, calls string, ok bool) {
	text := strings.TrimSpace(sampled)
	if last := cmp.Or(f.end, f.close); last == "" || !strings.HasSuffix(text, last) {
		text = strings.TrimSpace(strings.TrimSuffix(text, strings.TrimSpace(stop)))
	}

	at := strings.Index(text, cmp.Or(f.begin, f.open))
	if at < 0 {
		return "", "", false
	}

	before, calls = text[:at], strings.TrimPrefix(text[at:], f.begin)
	calls, ok = strings.CutSuffix(calls, f.end)

	return before, strings.TrimSpace(calls), ok
}

// next reads the call with which a text begins.
func (f form) next(text string) (_ Call, rest string, ok bool) {
	content, ok := strings.CutPrefix(text, f.open)
	if !ok {
		return Call{}, "", false
	}

	if f.close != "" {
		if content, rest, ok = strings.Cut(content, f.close); !ok {
			return Call{}, "", false
		}
	}

	if strings.Contains(content, f.open) || len(content) > maxPlain {
		return Call{}, "", false
	}

	call, ok := f.read(strings.TrimSpace(content))

	return call, rest, ok
}

// read reads the content of a call.
func (f form) read(content string) (Call, bool) {
	if f.between != "" {
		name, arguments, ok := strings.Cut(content, f.between)
		return Call{nameOf(name), strings.TrimSpace(arguments)}, ok
	}

	var (
		keys   []string
		values [][]byte
	)

	object := rawjson.Cursor{Src: []byte(content)}
	for key := range object.Fields {
		keys, values = append(keys, string(key)), append(values, object.Skip())
	}

	if !object.AtEnd() || len(keys) != 2 || keys[0] != "name" || keys[1] != "arguments" && keys[1] != "parameters" {
		return Call{}, false
	}

	return Call{rawjson.TextOf(values[0]), string(values[1])}, true
}

// nameOf is a name without what Kimi's template writes around it: functions.NAME:3.
func nameOf(text string) string {
	text = strings.TrimSpace(text)
	if name, ok := strings.CutPrefix(text, "functions."); ok {
		text, _, _ = strings.Cut(name, ":")
	}

	return text
}

// differing are numbers and escapes on which readers of JSON differ.
const differing = `[0-9]{20,}|[0-9][eE][+-]?[0-9]{3}|\\u(?:[dD][89a-fA-F]|0000)`

// isPlain reports whether every reader of JSON reads the arguments, and reads an object.
func isPlain(arguments string) bool {
	raw := []byte(arguments)

	return rawjson.IsObject(raw) && json.Valid(raw) && rawjson.Nestable(raw) &&
		!regexp.MustCompile(differing).Match(raw)
}

// wayOf describes what stands before the calls; false: a thought is open.
func wayOf(f form, before string) (Way, bool) {
	const begin, end = "<think>", "</think>"

	text := strings.TrimPrefix(strings.TrimSpace(before), begin)

	thought := strings.Contains(text, end)
	if thought {
		_, text, _ = strings.Cut(text, end)
	} else if text != strings.TrimSpace(before) {
		return Way{}, false
	}

	way := Way{Form: f.name, Thought: thought, Text: strings.TrimSpace(text) != ""}

	return way, !strings.Contains(text, begin) && !strings.Contains(text, end)
}
