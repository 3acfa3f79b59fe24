package web

import (
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"io/fs"
	"net/http"
	"regexp"
	"strings"
)

// SavedPage writes the page as one HTML file, with answers of the server in it: it opens in a browser without a server.
//
// The scripts of the page become data URLs that an import map names. An answer is an inert script element with gzip in
// base64, so that nothing in it is ever read as HTML. The file's policy allows no connection, and no script but these.
type SavedPage struct {
	w    http.ResponseWriter
	size int64
	end  string
}

// Parts of index.html that a saved page replaces.
const (
	styleLink  = `<link rel="stylesheet" href="style.css">`
	scriptLink = `<script type="module" src="app.js"></script>`
	root       = `<html lang="en">`
	bodyEnd    = "</body>"
)

// siblingImport is how a script of the page names another one.
var siblingImport = regexp.MustCompile(`from "\./([a-z]+\.js)"`)

// NewSavedPage writes the beginning of a page that opens at a place such as "#/rollouts/ID".
func NewSavedPage(w http.ResponseWriter, place string) (*SavedPage, error) {
	index, style, imports, err := savedParts()
	if err != nil {
		return nil, fmt.Errorf("the saved page: %w", err)
	}

	const start = `import "rolloutd/app.js";`

	policy := fmt.Sprintf(
		"default-src 'none'; script-src data: %s %s; style-src %s; img-src data:; base-uri 'none'; form-action 'none'",
		sourceOf(imports), sourceOf(start), sourceOf(style),
	)
	head := `<meta http-equiv="Content-Security-Policy" content="` + policy + `">` +
		`<style>` + style + `</style>` +
		`<script type="importmap">` + imports + `</script>` +
		`<script type="module">` + start + `</script>`

	for old, text := range map[string]string{
		styleLink:  head,
		scriptLink: "",
		root:       `<html lang="en" data-place="` + html.EscapeString(place) + `">`,
	} {
		if strings.Count(index, old) != 1 {
			return nil, fmt.Errorf("the saved page: index.html must have %s once", old)
		}

		index = strings.Replace(index, old, text, 1)
	}

	before, _, found := strings.Cut(index, bodyEnd)
	if !found {
		return nil, errors.New("the saved page: index.html has no end of the body")
	}

	p := &SavedPage{w: w, end: bodyEnd + "\n</html>\n"}

	return p, p.write(before)
}

// savedParts returns the page's HTML and style, and an import map with all its scripts.
func savedParts() (index, style, imports string, err error) {
	names, err := fs.Glob(files, "page/*")
	if err != nil {
		return "", "", "", err
	}

	urls := map[string]string{}

	for _, name := range names {
		text, err := files.ReadFile(name)
		if err != nil {
			return "", "", "", err
		}

		switch name = strings.TrimPrefix(name, "page/"); {
		case name == "index.html":
			index = string(text)
		case name == "style.css":
			style = string(text)
		case strings.HasSuffix(name, ".js"):
			script := siblingImport.ReplaceAll(text, []byte(`from "rolloutd/$1"`))
			urls["rolloutd/"+name] = "data:text/javascript;base64," + base64.StdEncoding.EncodeToString(script)
		}
	}

	text, err := json.Marshal(map[string]any{"imports": urls})

	return index, style, string(text), err
}

// sourceOf returns the source expression that allows an inline script or style.
func sourceOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// Size returns the bytes that were written.
func (p *SavedPage) Size() int64 { return p.size }

func (p *SavedPage) write(text string) error {
	n, err := io.WriteString(p.w, text)
	p.size += int64(n)

	return err
}

// Close writes the end of the page.
func (p *SavedPage) Close() error { return p.write(p.end) }

// Answer records what handle answers to a request that the page makes for path, as it is written; seen also gets
// the body. It returns the status.
func (p *SavedPage) Answer(path string, seen io.Writer, handle func(http.ResponseWriter)) (int, error) {
	a := &savedAnswer{page: p, path: path, seen: seen, header: http.Header{}}
	handle(a)
	a.WriteHeader(http.StatusOK)

	return a.status, errors.Join(a.err, a.close())
}

// savedAnswer is the answer to one request, which is written while it is made. Its handlers may flush.
type savedAnswer struct {
	page   *SavedPage
	path   string
	seen   io.Writer
	header http.Header

	// set by WriteHeader
	status int
	base64 io.WriteCloser
	gzip   *gzip.Writer

	// the first error of a write
	err error
}

func (a *savedAnswer) Header() http.Header { return a.header }

// FlushError is for handlers that stream: nobody waits for a part.
func (a *savedAnswer) FlushError() error { return a.err }

// Unwrap is for http.ResponseController: a handler that holds memory bounds the time of a slow client.
func (a *savedAnswer) Unwrap() http.ResponseWriter { return a.page.w }

func (a *savedAnswer) WriteHeader(status int) {
	if a.status != 0 {
		return
	}

	a.status = status
	a.err = a.page.write(fmt.Sprintf(`<script type="text/plain" data-path="%s" data-status="%d">`,
		html.EscapeString(a.path), status))
	a.base64 = base64.NewEncoder(base64.StdEncoding, counted{a.page})
	a.gzip = gzip.NewWriter(a.base64)
}

func (a *savedAnswer) Write(b []byte) (int, error) {
	a.WriteHeader(http.StatusOK)

	if a.err == nil {
		_, a.err = io.MultiWriter(a.gzip, a.seen).Write(b)
	}

	return len(b), a.err
}

func (a *savedAnswer) close() error {
	return errors.Join(a.gzip.Close(), a.base64.Close(), a.page.write("</script>\n"))
}

// counted writes to a page.
type counted struct{ page *SavedPage }

func (c counted) Write(b []byte) (int, error) {
	n, err := c.page.w.Write(b)
	c.page.size += int64(n)

	return n, err
}
