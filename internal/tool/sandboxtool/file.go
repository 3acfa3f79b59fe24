package sandboxtool

import (
	"context"
	"encoding/json"

	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
	"github.com/rolloutd/rolloutd/internal/tool"
)

// file is a tool that sandboxd's own program runs inside the sandbox; its arguments are passed on unchanged.
type file struct {
	definition tool.Definition

	// name of the file tool
	name string
}

const pathProperty = `"path":{"type":"string","minLength":1,"description":"Path, absolute or relative to the workspace"}`

func readFile() tool.Tool {
	return file{
		definition(
			"read_file",
			"Read a text file. Up to 100,000 bytes are returned; read longer files in parts with offset and limit.",
			pathProperty+`,"offset":{"type":"integer","minimum":1,"description":"First line to read, from 1"},`+
				`"limit":{"type":"integer","minimum":1,"description":"Number of lines to read"}`,
			"path",
		),
		"read",
	}
}

func writeFile() tool.Tool {
	return file{
		definition(
			"write_file",
			"Write a text file, replacing what was there. Parent directories are created.",
			pathProperty+`,"content":{"type":"string","description":"The whole content of the file"}`,
			"path",
			"content",
		),
		"write",
	}
}

func editFile() tool.Tool {
	return file{
		definition(
			"edit_file",
			"Replace an exact string in a text file. The string must be unique in the file unless replace_all is set.",
			pathProperty+`,"old_string":{"type":"string","minLength":1,"description":"The exact text to replace"},`+
				`"new_string":{"type":"string","description":"The text to put in its place"},`+
				`"replace_all":{"type":"boolean","description":"Replace every occurrence"}`,
			"path",
			"old_string",
			"new_string",
		),
		"edit",
	}
}

func listFiles() tool.Tool {
	return file{
		definition(
			"list_files",
			"List a directory: names, directories with a slash, files with their size in bytes. At most 1,000 entries.",
			`"path":{"type":"string","description":"Path, absolute or relative to the workspace; default the workspace"},`+
				`"recursive":{"type":"boolean","description":"List what is in subdirectories too"}`,
		),
		"list",
	}
}

// Definition implements tool.Tool.
func (t file) Definition() tool.Definition { return t.definition }

// Call implements tool.Tool.
func (t file) Call(ctx context.Context, env tool.Env, c tool.Call) (tool.Result, error) {
	r, message, err := exec(ctx, env, c.ID, wire.Process{
		Argv: []string{wire.Self, wire.FileTool, t.name}, Stdin: c.Arguments, KeepBytes: 1 << 20,
	}, fileTimeout)
	switch {
	case err != nil || message != "":
		return tool.Failed(message), err
	case r.TimedOut || r.ExitCode != 0:
		return brokenOff(t.definition.Name, r), nil
	}

	var answer wire.FileAnswer
	// processes of the same user can write to it
	if json.Unmarshal(append(r.Stdout.Head, r.Stdout.Tail...), &answer) != nil {
		return tool.Failed(t.definition.Name + " gave no usable answer"), nil
	}

	if answer.Error != "" {
		return tool.Result{Content: answer.Content, Error: true, Message: answer.Error}, nil
	}

	return tool.Result{
		Content: answer.Content,
		Data: data(struct {
			Path string `json:"path"`
			Size int64  `json:"size"`
		}{answer.Path, answer.Size}),
	}, nil
}

// brokenOff returns the result of a helper that failed: the sandbox is out of memory or processes, or its
// file system does not answer. All are caused by processes in the sandbox.
func brokenOff(name string, r wire.ExecResult) tool.Result {
	if r.TimedOut {
		return tool.Failed(name + " timed out")
	}

	return tool.Failed(name + " broke off: " + shown(r.Stderr))
}
