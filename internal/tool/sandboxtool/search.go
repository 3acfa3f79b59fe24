package sandboxtool

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
	"github.com/rolloutd/rolloutd/internal/tool"
)

// searcher is a tool that searches files with ripgrep.
type searcher struct{}

func search() tool.Tool { return searcher{} }

// Definition implements tool.Tool.
func (searcher) Definition() tool.Definition {
	return definition(
		"search",
		"Search the contents of files with ripgrep: a regular expression, over a directory or a file. "+
			"Files that .gitignore names, hidden and binary files are left out. Returns path:line:text.",
		`"pattern":{"type":"string","minLength":1,"description":"Regular expression"},`+
			`"path":{"type":"string","description":"Directory or file; default the workspace"},`+
			`"glob":{"type":"string","description":"Search only files whose path matches, such as *.py"},`+
			`"ignore_case":{"type":"boolean","description":"Ignore case"}`,
		"pattern",
	)
}

// Call implements tool.Tool.
func (searcher) Call(ctx context.Context, env tool.Env, c tool.Call) (tool.Result, error) {
	var a struct {
		Pattern, Path, Glob string
		IgnoreCase          bool `json:"ignore_case"`
	}
	if err := json.Unmarshal(c.Arguments, &a); err != nil {
		return tool.Failed(err.Error()), nil
	}

	argv := []string{
		"rg", "--no-config", "--line-number", "--with-filename", "--no-heading", "--color=never",
		"--sort=path", "--max-columns=500", "--max-columns-preview",
	}
	if a.IgnoreCase {
		argv = append(argv, "--ignore-case")
	}

	if a.Glob != "" {
		argv = append(argv, "--glob="+a.Glob)
	}

	argv = append(argv, "--regexp="+a.Pattern, "--")
	if a.Path != "" {
		argv = append(argv, a.Path)
	}

	r, message, err := exec(ctx, env, c.ID, wire.Process{Argv: argv, KeepBytes: keepBytes}, fileTimeout)
	switch {
	case strings.Contains(message, "no program"):
		return tool.Failed("search needs ripgrep (rg), which this image does not have"), nil
	case err != nil || message != "":
		return tool.Failed(message), err
	}

	return searchResult(r), nil
}

// searchResult returns the result of ripgrep: exit code 0 is a match, 1 none, 2 an error, possibly with matches.
func searchResult(r wire.ExecResult) tool.Result {
	content := shown(r.Stdout)
	switch {
	case r.TimedOut:
		return tool.Result{Content: content, Error: true, Message: "search timed out"}
	case r.ExitCode == 0:
		return tool.Result{Content: content}
	case r.ExitCode == 1:
		return tool.Result{Content: "no matches"}
	default:
		return tool.Result{Content: content, Error: true, Message: shown(r.Stderr)}
	}
}
