package external

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/input/jsoninput"
	"github.com/rolloutd/rolloutd/internal/network/lostconn"
	"github.com/rolloutd/rolloutd/internal/text"
	"github.com/rolloutd/rolloutd/internal/tool"
)

// ToolServer returns the Source of a tool server: GET /tools lists the tools, POST /execute runs one. token
// is sent as bearer token; "": none. transport nil: the default.
func ToolServer(o Options, url, token string, transport http.RoundTripper) *Server {
	if transport == nil {
		transport = newTransport()
	}

	client := &http.Client{
		Transport: transport,
		// A redirect would send the token elsewhere.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}

	return newServer(o, &httpServer{url: strings.TrimRight(url, "/"), token: token, client: client})
}

const dialTimeout = 10 * time.Second

func newTransport() *http.Transport {
	return &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         lostconn.Dialer(dialTimeout).DialContext,
		TLSHandshakeTimeout: dialTimeout,
		IdleConnTimeout:     90 * time.Second,
		MaxIdleConnsPerHost: DefaultConcurrency,
	}
}

// httpServer implements remote for a tool server.
type httpServer struct {
	url, token string
	client     *http.Client
}

func (s *httpServer) close() error {
	s.client.CloseIdleConnections()
	return nil
}

func (s *httpServer) list(ctx context.Context) ([]tool.Definition, error) {
	var out struct {
		Tools []struct {
			Function tool.Definition `json:"function"`
		} `json:"tools"`
	}

	status, err := s.exchange(ctx, http.MethodGet, "/tools", nil, &out)

	var large *jsoninput.Error
	if errors.As(err, &large) {
		return nil, fault.Wrap(fault.Unavailable, err, "GET /tools")
	}

	if err != nil {
		return nil, err
	}

	if status != http.StatusOK || out.Tools == nil {
		return nil, fault.New(fault.Unavailable,
			"the answer to GET /tools must have status 200 and a list of tools, got status %d",
			status)
	}

	list := make([]tool.Definition, len(out.Tools))
	for i, t := range out.Tools {
		list[i] = t.Function
	}

	return list, nil
}

type executeRequest struct {
	TrajectoryID string   `json:"trajectory_id,omitempty"`
	Tool         toolCall `json:"tool"`
	TimeoutS     float64  `json:"timeout_s"`
}

type toolCall struct {
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
	UniqID    string          `json:"uniq_id"`
}

type executeAnswer struct {
	Success  *bool           `json:"success"`
	Output   string          `json:"output"`
	Error    string          `json:"error"`
	Metadata json.RawMessage `json:"metadata"`
	UniqID   string          `json:"uniq_id"`

	// why the request was refused
	Detail json.RawMessage `json:"detail"`
}

func (s *httpServer) call(ctx context.Context, r request) (tool.Result, error) {
	var out executeAnswer

	status, err := s.exchange(ctx, http.MethodPost, "/execute", executeRequest{
		TrajectoryID: r.scope,
		TimeoutS:     r.timeout.Seconds(),
		Tool:         toolCall{Name: r.name, Arguments: r.arguments, UniqID: r.key()},
	}, &out)

	var large *jsoninput.Error
	switch {
	case errors.As(err, &large):
		return tooLarge(large), nil
	case err != nil:
		return tool.Result{}, err
	case status == http.StatusUnprocessableEntity || status == http.StatusBadRequest:
		return tool.Failed("the tool server refused the call: " + bounded(string(out.Detail), maxMessage/2)), nil
	case out.Success == nil:
		return tool.Result{}, fault.New(fault.Unavailable, "the answer to POST /execute has no success")
	case out.UniqID != "" && out.UniqID != r.key():
		return tool.Result{}, fault.New(fault.Unavailable,
			"the answer is of another call: its uniq_id must be %q, got %.100q",
			r.key(), out.UniqID)
	}

	if kind := faultOf(out); kind != "" {
		return tool.Result{}, fault.New(kind, "%s", bounded(out.Error, maxMessage/2))
	}

	return result(*out.Success, out.Output, out.Error, out.Metadata), nil
}

// faultOf returns the kind that a rolloutd tool server sets for a failure that the tool did not cause; "":
// the tool did.
func faultOf(a executeAnswer) fault.Kind {
	var in struct {
		Fault fault.Kind `json:"fault"`
	}
	if *a.Success || len(a.Metadata) == 0 || json.Unmarshal(a.Metadata, &in) != nil || !in.Fault.Known() {
		return ""
	}

	return in.Fault
}

// exchange sends a request and decodes the JSON answer. An answer that does not follow the protocol is a failure.
func (s *httpServer) exchange(ctx context.Context, method, path string, in, out any) (status int, err error) {
	req, err := s.request(ctx, method, path, in)
	if err != nil {
		return 0, fault.Wrap(fault.Internal, err, "%s %s", method, path)
	}

	res, err := s.client.Do(req)
	if err != nil {
		return 0, fault.Wrap(fault.Unavailable, err, "request")
	}
	defer res.Body.Close()

	switch res.StatusCode {
	case http.StatusOK, http.StatusUnprocessableEntity, http.StatusBadRequest:
	case http.StatusUnauthorized, http.StatusForbidden:
		return 0, fault.New(fault.Unauthorized, "%s %s: the server refuses our token (status %d)",
			method, path, res.StatusCode)
	default:
		return 0, fault.New(fault.Unavailable, "%s %s answers status %d: %s",
			method, path, res.StatusCode, start(res.Body))
	}

	var begin bytes.Buffer

	body := io.TeeReader(jsoninput.NewReader(res.Body, answerLimits()), &beginning{&begin})
	if err := json.NewDecoder(body).Decode(out); err != nil {
		var large *jsoninput.Error
		if errors.As(err, &large) {
			return 0, large
		}

		return 0, fault.Wrap(fault.Unavailable, err, "%s %s: the answer is not of the tool server protocol (%s: %s)",
			method, path, text.HeadUTF8(res.Header.Get("Content-Type"), 100), text.HeadUTF8(begin.String(), maxQuote))
	}

	return res.StatusCode, nil
}

func (s *httpServer) request(ctx context.Context, method, path string, in any) (*http.Request, error) {
	var body io.Reader = http.NoBody

	if in != nil {
		raw, err := json.Marshal(in)
		if err != nil {
			return nil, err
		}

		body = bytes.NewReader(raw)
	}

	req, err := http.NewRequestWithContext(ctx, method, s.url+path, body)
	if err != nil {
		return nil, err
	}

	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}

	if s.token != "" {
		req.Header.Set("Authorization", "Bearer "+s.token)
	}

	return req, nil
}

// maxQuote bounds the quoted part of an answer in an error, in characters.
const maxQuote = 200

func start(r io.Reader) string {
	head, err := io.ReadAll(io.LimitReader(r, 4*maxQuote))
	if err != nil {
		return fmt.Sprintf("unreadable (%v)", err)
	}

	return text.HeadUTF8(strings.TrimSpace(string(head)), maxQuote)
}

// beginning keeps only the first bytes written.
type beginning struct{ *bytes.Buffer }

func (b *beginning) Write(p []byte) (int, error) {
	if room := 4*maxQuote - b.Len(); room > 0 {
		b.Buffer.Write(p[:min(room, len(p))])
	}

	return len(p), nil
}
