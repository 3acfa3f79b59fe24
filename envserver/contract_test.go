package envserver_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/envserver"
)

// contract checks the answers of a server against its OpenAPI document.
type contract struct {
	srv *envserver.Server

	mu   sync.Mutex
	seen []exchange
}

// document has the parts of an OpenAPI document against which answers are checked.
type document struct {
	Paths      map[string]map[string]described
	Components struct {
		Schemas map[string]json.RawMessage
	}

	mu       sync.Mutex
	resolved map[string]*jsonschema.Resolved
}

// documents are those that were read, by the outlines of their servers: reading one takes longer than most tests.
var documents = struct {
	sync.Mutex
	of map[string]*document
}{of: map[string]*document{}}

// exchange is a received answer.
type exchange struct {
	method, path, media string
	status              int
	body                string
}

// described is one operation.
type described struct {
	OperationID string
	Security    []any
	RequestBody struct{ Content map[string]content }
	Responses   map[string]struct{ Content map[string]content }
}

type content struct{ Schema json.RawMessage }

// newContract checks all recorded answers at the end of the test, so that the checks do not delay the test.
func newContract(t *testing.T, srv *envserver.Server) *contract {
	t.Helper()

	c := &contract{srv: srv}

	t.Cleanup(func() {
		for _, x := range c.seen {
			c.document(t).check(t, x)
		}
	})

	return c
}

// document reads the document of the server, or returns that of one like it.
func (c *contract) document(t *testing.T) *document {
	t.Helper()
	documents.Lock()
	defer documents.Unlock()

	outline := c.srv.Outline()
	if d := documents.of[outline]; d != nil {
		return d
	}

	text, err := c.srv.Described()
	require.NoError(t, err)

	// The validator finds definitions under $defs only.
	text = bytes.ReplaceAll(text, []byte("#/components/schemas/"), []byte("#/$defs/"))
	d := &document{resolved: map[string]*jsonschema.Resolved{}}
	require.NoError(t, json.Unmarshal(text, d))

	documents.of[outline] = d

	return d
}

// note records an answer of a route.
func (c *contract) note(req *http.Request, resp *http.Response, body []byte) {
	if req.Header.Get("Sec-Fetch-Site") != "" || resp.StatusCode == http.StatusRequestHeaderFieldsTooLarge ||
		strings.Contains(
			req.Header.Get("Accept"),
			"text/event-stream",
		) || req.Header.Get("MCP-Protocol-Version") != "" {
		// refused before it reached a route, or of another protocol
		return
	}

	media, _, _ := strings.Cut(resp.Header.Get("Content-Type"), ";")

	c.mu.Lock()
	defer c.mu.Unlock()

	c.seen = append(c.seen, exchange{req.Method, req.URL.Path, media, resp.StatusCode, string(body)})
}

var parameter = regexp.MustCompile(`\\\{[a-z]+\\\}`)

// find returns the operation of a request.
func (c *document) find(method, path string) (described, bool) {
	for template, operations := range c.Paths {
		pattern := "^" + parameter.ReplaceAllString(regexp.QuoteMeta(template), "[^/]+") + "$"
		if op, ok := operations[strings.ToLower(method)]; ok && regexp.MustCompile(pattern).MatchString(path) {
			return op, true
		}
	}

	return described{}, false
}

var referred = regexp.MustCompile(`"#/\$defs/([^"]+)"`)

// addReferred adds the components that a schema needs. To resolve all of them takes longer than most tests.
func (c *document) addReferred(defs map[string]json.RawMessage, schema json.RawMessage) {
	for _, found := range referred.FindAllSubmatch(schema, -1) {
		name := string(found[1])
		if _, ok := defs[name]; ok {
			continue
		}

		defs[name] = c.Components.Schemas[name]
		c.addReferred(defs, defs[name])
	}
}

// accepts validates a JSON text against a schema of the document.
func (c *document) accepts(t *testing.T, schema json.RawMessage, text string) error {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()

	resolved := c.resolved[string(schema)]
	if resolved == nil {
		defs := map[string]json.RawMessage{}
		c.addReferred(defs, schema)

		root, err := json.Marshal(map[string]any{"$defs": defs, "allOf": []json.RawMessage{schema}})
		require.NoError(t, err)

		var s jsonschema.Schema
		require.NoError(t, json.Unmarshal(root, &s))
		resolved, err = s.Resolve(nil)
		require.NoError(t, err)

		c.resolved[string(schema)] = resolved
	}

	var v any
	require.NoError(t, json.Unmarshal([]byte(text), &v), text)

	return resolved.Validate(v)
}

// check checks an answer against the document: its status, its media type and its body.
func (c *document) check(t *testing.T, x exchange) {
	t.Helper()

	op, ok := c.find(x.method, x.path)
	if !ok {
		return
	}

	answer, ok := op.Responses[strconv.Itoa(x.status)]
	require.Truef(t, ok, "not in the document: %+v", x)

	if x.status == http.StatusNoContent {
		require.Empty(t, answer.Content)
		require.Empty(t, x.body)

		return
	}

	require.Containsf(t, answer.Content, x.media, "%+v", x)

	if x.media == "application/json" {
		require.NoErrorf(t, c.accepts(t, answer.Content[x.media].Schema, x.body), "%+v", x)
	}
}
