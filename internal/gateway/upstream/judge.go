package upstream

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/rolloutd/rolloutd/internal/gateway/dialect"
	"github.com/rolloutd/rolloutd/internal/gateway/dialect/reply"
	"github.com/rolloutd/rolloutd/internal/rawjson"
)

// maxError bounds the stored part of an upstream's error, in bytes.
const maxError = 64 << 10

// refusal classifies a response with an error status.
func refusal(res *http.Response, t *target) *Result {
	// a partial body is useful too
	body, _ := io.ReadAll(io.LimitReader(res.Body, maxError))
	body = cleanError(body, t.key)
	p := &Problem{Class: classOf(res.StatusCode), body: object(body), shown: shownError(body, t.guarded),
		after: retryAfter(res.Header, time.Now()), guarded: t.guarded}

	at := ""
	if res.StatusCode == http.StatusNotFound || res.StatusCode == http.StatusMethodNotAllowed {
		at = " at " + clean(res.Request.URL.Path, t.key)
	}

	p.Text = fmt.Sprintf("the endpoint answered %d%s: %s", res.StatusCode, at, p.message(body))
	if res.StatusCode == http.StatusBadRequest && res.Request.URL.Scheme == "http" && wantsTLS(body) {
		p.Class, p.Text = Refused, "the endpoint answered 400: it expects TLS; use https:// in its URL"
	}

	if res.StatusCode/100 == 3 && res.Header.Get("Location") != "" {
		p.Text = fmt.Sprintf("the endpoint answered %d: it redirects%s, which is not followed: %s",
			res.StatusCode, clean(destination(res, t.guarded), t.key), cmp.Or(short(errorText(body)), "change its URL"))
	}

	return &Result{Status: res.StatusCode, Problem: p}
}

// destination returns " to " and the address to which a response redirects, without its query, which may have secrets;
// "": there is none, or the client that gave the endpoint must not read it.
func destination(res *http.Response, guarded bool) string {
	to, err := res.Location()
	if err != nil || guarded {
		return ""
	}

	return " to " + (&url.URL{Scheme: to.Scheme, Host: to.Host, Path: to.Path}).String()
}

// wantsTLS reports whether the body of a 400 is what Go's server or nginx says where it expects TLS.
// Neither quotes the request, so an agent cannot cause it.
func wantsTLS(body []byte) bool {
	return bytes.HasPrefix(body, []byte("Client sent an HTTP request to an HTTPS server")) ||
		bytes.HasPrefix(body, []byte("<html>")) &&
			bytes.Contains(body, []byte("<title>400 The plain HTTP request was sent to HTTPS port</title>"))
}

// clientClosed is the status by which nginx, gRPC gateways and LiteLLM say that a request was canceled on its way.
const clientClosed = 499

// classOf classifies a status. TGI, Azure and Bedrock answer 424 when the model failed. A rejected key, model or account
// is never the agent's fault.
func classOf(status int) Class {
	switch status {
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusMisdirectedRequest, http.StatusFailedDependency,
		http.StatusTooEarly, http.StatusTooManyRequests, clientClosed:
		return Retry
	case http.StatusUnauthorized, http.StatusPaymentRequired, http.StatusForbidden, http.StatusNotFound,
		http.StatusMethodNotAllowed, http.StatusGone:
		return Refused
	}

	switch {
	case status >= 500:
		return Retry
	case status >= 400:
		return Rejected
	default:
		// a redirect: not followed, since the request carries a key
		return Refused
	}
}

// midstream classifies an error inside a stream that began with status 200. Once the reply has begun, the request was
// accepted, and the engine failed, whatever the error's code: vLLM gives 400 for each ValueError, also for one of its
// parsers. Only a full context may show later. Before that, a status as its code is classified as such; a code or type
// that rejects the request is a rejection; anything else may be transient.
func midstream(s *reply.Stream, guarded bool) *Problem {
	raw := s.Error
	p := &Problem{Class: Retry, body: object(raw), shown: shownError(raw, guarded), guarded: guarded}
	p.Text = "the reply broke off: " + p.message(raw)

	var e struct {
		Code json.RawMessage `json:"code"`
		Type string          `json:"type"`
	}
	if json.Unmarshal(raw, &e) != nil {
		return p
	}

	name := strings.Trim(string(e.Code), `"`)
	if s.Begun() && name != dialect.OverflowCode && !Overflows(p.Text) {
		return p
	}

	code, err := strconv.Atoi(name)
	switch {
	case err == nil && code >= 400 && code < 500:
		p.Class = classOf(code)
	case strings.HasPrefix(name, "invalid_"), strings.HasPrefix(e.Type, "invalid_"), name == dialect.OverflowCode:
		p.Class = Rejected
	}

	return p
}

// object returns an upstream's error as an object: itself, or an object with its text.
func object(body []byte) json.RawMessage {
	if o := bytes.TrimSpace(body); len(o) > 0 && o[0] == '{' && json.Valid(o) && rawjson.Nestable(o) {
		return o
	}
	// strings always encode
	b, _ := json.Marshal(map[string]string{"message": short(cmp.Or(errorText(body), string(body)))})

	return b
}

// message returns the text of an error. For an endpoint given by a client it returns only errors in a usual
// form: the client must not read what other servers at such an address say.
func (p *Problem) message(body []byte) string {
	if text := errorText(body); text != "" {
		return short(text)
	}

	if p.guarded {
		return fmt.Sprintf("%d bytes that are not an error of a model API", len(body))
	}

	return short(string(body))
}

// errorText returns the message of an error in any of the usual forms; "": another form.
func errorText(body []byte) string {
	var e struct {
		Error   json.RawMessage `json:"error"`
		Message string          `json:"message"`
		Detail  json.RawMessage `json:"detail"`
	}
	if json.Unmarshal(body, &e) != nil {
		return ""
	}

	for _, raw := range []json.RawMessage{e.Error, e.Detail} {
		var (
			in struct {
				Message string `json:"message"`
			}
			text string
		)
		switch {
		case json.Unmarshal(raw, &in) == nil && in.Message != "":
			return in.Message
		case json.Unmarshal(raw, &text) == nil && text != "":
			return text
		}
	}

	return e.Message
}

func short(s string) string {
	s = strings.ToValidUTF8(strings.TrimSpace(s), "?")
	if r := []rune(s); len(r) > 1000 {
		return string(r[:1000]) + " …"
	}

	return s
}

// retryAfter returns how long the endpoint asks for no calls, from each header form in use. A date is
// relative to the upstream's own clock if it sends one, since its clock may differ from ours.
func retryAfter(h http.Header, now time.Time) time.Duration {
	if ms, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil && ms > 0 {
		return time.Duration(min(ms, 1e12) * float64(time.Millisecond))
	}

	v := h.Get("Retry-After")
	if s, err := strconv.ParseFloat(v, 64); err == nil && s > 0 {
		return time.Duration(min(s, 1e9) * float64(time.Second))
	}

	if at, err := http.ParseTime(v); err == nil {
		if date, err := http.ParseTime(h.Get("Date")); err == nil {
			now = date
		}

		return max(at.Sub(now), 0)
	}

	return 0
}

// shownError returns the part of an error that callers may see: all of it, or for an endpoint given by a
// client only the fields of model APIs.
func shownError(body []byte, guarded bool) json.RawMessage {
	switch {
	case !guarded:
		return object(body)
	case errorText(body) != "":
		return usualError(body)
	default:
		return nil
	}
}

// usualError returns an error of a usual form without its other fields.
func usualError(body []byte) json.RawMessage {
	var e struct {
		Error *struct {
			Message string          `json:"message"`
			Type    string          `json:"type,omitempty"`
			Code    json.RawMessage `json:"code,omitempty"`
		} `json:"error"`
	}

	problem := any(map[string]string{"message": short(errorText(body))})
	if json.Unmarshal(body, &e) == nil && e.Error != nil && e.Error.Message != "" {
		e.Error.Message, e.Error.Type = short(e.Error.Message), short(e.Error.Type)
		if len(e.Error.Code) > 64 {
			e.Error.Code = nil
		}

		problem = e
	}
	// strings always encode
	b, _ := json.Marshal(problem)

	return b
}

// Overflows reports whether an engine refused a prompt because it exceeds the model's context. vLLM and
// SGLang have no error code for it.
func Overflows(words string) bool {
	words = strings.ToLower(words)
	for _, known := range []string{
		// vLLM, SGLang; vLLM of images
		"maximum context length", "longer than the model's context length", "longer than the maximum model length",
		// llama.cpp, Anthropic, OpenAI
		"exceeds the available context size", "prompt is too long", "exceeds the context window", dialect.OverflowCode,
	} {
		if strings.Contains(words, known) {
			return true
		}
	}

	return false
}
