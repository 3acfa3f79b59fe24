package api

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"html/template"

	"github.com/rolloutd/rolloutd/envserver/internal/tools"
)

//go:embed docs.html
var docsTemplate string

type (
	docsTool  struct{ Name, Description, Schema string }
	docsRoute struct{ Method, Path, Summary string }
)

// DocsPage is the HTML page about the routes and the tools.
type DocsPage struct {
	Name, Version, Description string
}

// Render makes the page from the tables that serve the routes and the tools.
func (p DocsPage) Render(all []Route, list []tools.Tool) ([]byte, error) {
	t, err := template.New("docs").Parse(docsTemplate)
	if err != nil {
		return nil, err
	}

	var shown []docsTool

	for _, tool := range list {
		schema, err := json.MarshalIndent(tool.InputSchema, "", "  ")
		if err != nil {
			return nil, err
		}

		shown = append(shown, docsTool{tool.Name, tool.Description, string(schema)})
	}

	var routes []docsRoute

	for _, rt := range all {
		if rt.Operation != nil {
			routes = append(routes, docsRoute{rt.Method, rt.Path, rt.Operation.Summary})
		}
	}

	var b bytes.Buffer

	err = t.Execute(&b, map[string]any{
		"Name":        p.Name,
		"Version":     p.Version,
		"Description": p.Description,
		"Routes":      routes,
		"Tools":       shown,
	})

	return b.Bytes(), err
}
