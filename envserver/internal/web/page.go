package web

import (
	"embed"
	"fmt"
	"io/fs"
	"net/http"
)

//go:embed page
var files embed.FS

// policy restricts the page to scripts, styles and connections of this server, and forbids frames.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// Part reports whether a path under the prefix is the page or a file of it.
func Part(path string) bool {
	_, err := fs.Stat(files, "page/"+path)
	return path == "" || err == nil
}

// Page serves the page and its files under prefix. They contain no secrets: the page requests its data from
// the server, with the token of its user.
func Page(prefix string) (http.Handler, error) {
	page, err := fs.Sub(files, "page")
	if err != nil {
		return nil, fmt.Errorf("the page: %w", err)
	}

	serve := http.StripPrefix(prefix, http.FileServerFS(page))

	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", policy)
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-cache")
		serve.ServeHTTP(w, r)
	}), nil
}
