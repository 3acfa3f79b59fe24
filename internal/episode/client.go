package episode

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// maxAnswer bounds a decoded answer, in bytes.
const maxAnswer = 32 << 20

// Client calls the tool service of one host. Its errors are faults: Unavailable when the service does not answer or the
// sandbox takes no calls at the moment, else the kind that the service gave. It is safe for concurrent use.
type Client struct {
	base  string
	token string
	http  *http.Client
}

// NewClient makes a client of the service at baseURL.
func NewClient(baseURL, token string, h *http.Client) *Client {
	return &Client{base: strings.TrimRight(baseURL, "/"), token: token, http: h}
}

// Status returns the status of the episode of a sandbox. It waits for an episode that is not open yet, for
// wait at most.
func (c *Client) Status(ctx context.Context, sandbox string, wait time.Duration) (Status, error) {
	s := Status{SandboxID: sandbox}
	err := c.json(ctx, request{method: http.MethodGet, sandbox: sandbox, query: url.Values{"wait": {wait.String()}}}, &s)

	return s, err
}

// Call makes a call and returns its answer at its end. When ctx ends, the call continues; a call with the
// same ID attaches to it.
func (c *Client) Call(ctx context.Context, sandbox string, call Call) (a Answer, err error) {
	return a, c.json(ctx, request{method: http.MethodPost, sandbox: sandbox, path: "/calls", body: call}, &a)
}

// Submit ends the episode; it is no error if the episode has ended. Only Client and Arguments of the call are used.
func (c *Client) Submit(ctx context.Context, sandbox string, call Call) error {
	return c.json(ctx, request{method: http.MethodPost, sandbox: sandbox, path: "/submit", body: call}, nil)
}

// Join makes client the only client whose calls are taken.
func (c *Client) Join(ctx context.Context, sandbox, client string) (Status, error) {
	s := Status{SandboxID: sandbox}
	r := request{method: http.MethodPost, sandbox: sandbox, path: "/join", body: Call{Client: client}}
	err := c.json(ctx, r, &s)

	return s, err
}

// List lists the entries of a folder, at most limit of them, or a file. Links count as what they lead to in
// the workdir. more says that there are others.
func (c *Client) List(
	ctx context.Context,
	sandbox, path string,
	recursive bool,
	limit int,
) (entries []Entry, more bool, err error) {
	var list entryList

	r := request{method: http.MethodPost, sandbox: sandbox, path: "/list", body: listRequest{path, recursive, limit}}
	err = c.json(ctx, r, &list)

	return list.Entries, list.More, err
}

// Tar streams a file or folder as a tar with names relative to the workdir. A folder is its first entry.
// The caller closes the tar.
func (c *Client) Tar(ctx context.Context, sandbox, path string) (io.ReadCloser, error) {
	query := url.Values{"path": {path}, "names": {"workdir"}}

	res, err := c.send(ctx, request{method: http.MethodGet, sandbox: sandbox, path: "/tar", query: query})
	if err != nil {
		return nil, err
	}

	return res.Body, nil
}

type listRequest struct {
	Path      string `json:"path"`
	Recursive bool   `json:"recursive"`
	Limit     int    `json:"limit"`
}

type entryList struct {
	Entries []Entry `json:"entries"`
	More    bool    `json:"more"`
}

// request is a request about the episode of a sandbox.
type request struct {
	method, sandbox, path string
	query                 url.Values

	// sent as JSON; nil: there is none
	body any
}

func (c *Client) json(ctx context.Context, r request, out any) error {
	res, err := c.send(ctx, r)
	if err != nil {
		return err
	}
	defer res.Body.Close()

	if out == nil {
		_, err = io.Copy(io.Discard, res.Body)
	} else {
		err = json.NewDecoder(io.LimitReader(res.Body, maxAnswer)).Decode(out)
	}

	return fault.Wrap(fault.Unavailable, err, "tool service: read the answer")
}

func (c *Client) send(ctx context.Context, r request) (*http.Response, error) {
	var body io.Reader = http.NoBody

	if r.body != nil {
		raw, err := json.Marshal(r.body)
		if err != nil {
			return nil, fault.Wrap(fault.Invalid, err, "tool service: arguments")
		}

		body = bytes.NewReader(raw)
	}

	at := c.base + "/episodes/" + url.PathEscape(r.sandbox) + r.path
	if len(r.query) > 0 {
		at += "?" + r.query.Encode()
	}

	req, err := http.NewRequestWithContext(ctx, r.method, at, body)
	if err != nil {
		return nil, fault.Wrap(fault.Internal, err, "address of the tool service")
	}

	req.Header.Set("Authorization", "Bearer "+c.token)

	res, err := c.http.Do(req)
	if err != nil {
		return nil, fault.Wrap(fault.Unavailable, err, "tool service")
	}

	if res.StatusCode < http.StatusBadRequest {
		return res, nil
	}
	defer res.Body.Close()

	var f Failure
	if err := json.NewDecoder(io.LimitReader(res.Body, 64<<10)).Decode(&f); err != nil || !f.Kind.Known() {
		return nil, fault.New(fault.Unavailable, "tool service: answered %s", res.Status)
	}

	return nil, fault.New(f.Kind, "%s", f.Message)
}
