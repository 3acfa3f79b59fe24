package envserver

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"html/template"
	"net/http"
)

//go:embed docs.html
var docsPage string

type (
	docsTool  struct{ Name, Description, Schema string }
	docsRoute struct{ Method, Path, Summary string }
)

// docs is a page for people: the routes and the tools, made from the same tables that serve them.
func (s *Server) docs(w http.ResponseWriter, _ *http.Request) {
	page, err := s.renderDocs()
	if err != nil {
		s.o.Logger.Error("render /docs", "err", err)
		writeDetail(w, http.StatusInternalServerError, "Internal Server Error")
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write(page) // a client that is gone cannot be told
}

func (s *Server) renderDocs() ([]byte, error) {
	t, err := template.New("docs").Parse(docsPage)
	if err != nil {
		return nil, err
	}
	var list []docsTool
	for _, tool := range s.tools.List() {
		schema, err := json.MarshalIndent(tool.InputSchema, "", "  ")
		if err != nil {
			return nil, err
		}
		list = append(list, docsTool{tool.Name, tool.Description, string(schema)})
	}
	var routes []docsRoute
	for _, rt := range s.routes() {
		if rt.says != nil {
			routes = append(routes, docsRoute{rt.method, rt.path, rt.says.summary})
		}
	}
	var b bytes.Buffer
	err = t.Execute(&b, map[string]any{"Name": s.o.Name, "Version": s.o.Version, "Description": s.o.Description, "Routes": routes, "Tools": list})
	return b.Bytes(), err
}
