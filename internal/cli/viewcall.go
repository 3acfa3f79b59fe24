package cli

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// callText formats the arguments of a tool call as what it is: a command, an edit, a file, or values by name.
func callText(arguments string) string {
	var args map[string]json.RawMessage
	if json.Unmarshal([]byte(arguments), &args) != nil {
		// the model wrote no JSON
		return arguments
	}

	a := callArguments(args)
	path, _ := a.takeText("filePath", "file_path", "path", "filename", "file")

	var lines []string
	if path != "" {
		lines = append(lines, path)
	}

	if command, ok := a.takeText("command", "cmd", "script"); ok {
		lines = append(lines, "$ "+command)
	}

	lines = append(lines, a.takeEdits()...)

	if whole, ok := a.takeText("content", "contents", "file_text", "patch", "patchText", "diff", "code"); ok {
		lines = append(lines, whole)
	}

	for _, name := range slices.Sorted(maps.Keys(a)) {
		lines = append(lines, name+": "+a.text(name))
	}

	return strings.Join(lines, "\n")
}

// callArguments are the arguments of a call that were not formatted yet.
type callArguments map[string]json.RawMessage

// takeText removes the first of the arguments that is a text, and returns it.
func (a callArguments) takeText(names ...string) (string, bool) {
	for _, name := range names {
		var s string
		if raw, ok := a[name]; ok && json.Unmarshal(raw, &s) == nil {
			delete(a, name)
			return s, true
		}
	}

	return "", false
}

// text returns an argument: a text as it is, another value as JSON.
func (a callArguments) text(name string) string {
	var s string
	if json.Unmarshal(a[name], &s) == nil {
		return s
	}

	return string(a[name])
}

// takeEdits removes the edits of a file, one or a list of them, and returns them as lines that went and came.
func (a callArguments) takeEdits() (lines []string) {
	list := []callArguments{a}

	var several []callArguments
	if json.Unmarshal(a["edits"], &several) == nil {
		delete(a, "edits")

		list = append(list, several...)
	}

	for _, e := range list {
		before, isEdit := e.takeText("oldString", "old_string", "old_str", "old")
		after, isInsert := e.takeText("newString", "new_string", "new_str", "new")

		if isEdit || isInsert {
			lines = append(lines, changedLines(before, after)...)
		}
	}

	return lines
}

// changedLines returns the lines between the common beginning and the common end of two texts.
func changedLines(before, after string) (lines []string) {
	went, came := linesOf(before), linesOf(after)

	same := 0
	for same < min(len(went), len(came)) && went[same] == came[same] {
		same++
	}

	went, came = went[same:], came[same:]
	for len(went) > 0 && len(came) > 0 && went[len(went)-1] == came[len(came)-1] {
		went, came = went[:len(went)-1], came[:len(came)-1]
	}

	for _, line := range went {
		lines = append(lines, "- "+line)
	}

	for _, line := range came {
		lines = append(lines, "+ "+line)
	}

	return lines
}

// linesOf splits a text into lines; an empty text has none.
func linesOf(s string) []string {
	if s == "" {
		return nil
	}

	return strings.Split(strings.TrimSuffix(s, "\n"), "\n")
}
