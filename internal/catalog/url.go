package catalog

import (
	"net/url"
	"slices"
	"strings"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// normalizeAll is normalize of each URL in a list with commas: the engines of one endpoint.
func normalizeAll(raw string) (string, error) {
	urls := strings.Split(raw, ",")
	for i := range urls {
		var err error
		if urls[i], err = normalize(urls[i]); err != nil {
			return "", err
		}
	}

	return strings.Join(urls, ","), nil
}

// normalize checks a base URL and adds the /v1 of OpenAI-compatible servers. It refuses credentials in a
// URL, since URLs are shown to people, and the URL of a route, below which the server has nothing.
func normalize(raw string) (string, error) {
	u, err := url.Parse(strings.TrimSpace(raw))
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return "", fault.Field("base_url", "must be http(s)://host[:port][/path], got %q", raw)
	}

	if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return "", fault.Field("base_url", "must carry no credentials, query or fragment; the key goes into api_key")
	}

	s := strings.TrimRight(u.String(), "/")
	if strings.HasSuffix(s, "/completions") {
		return "", fault.Field("base_url", "must be the URL before /chat/completions, such as http://host:8000/v1, got %q", raw)
	}

	if !strings.HasSuffix(s, "/v1") {
		s += "/v1"
	}

	return s, nil
}

// mayCall refuses a list of a client's URLs if the policy does not allow one of them.
func (c *Catalog) mayCall(argument, urls string) error {
	for raw := range strings.SplitSeq(urls, ",") {
		u, err := url.Parse(raw)
		if err == nil {
			err = c.egress.CheckURL(u)
		}

		if err != nil {
			return fault.Field(argument, "%v", err)
		}
	}

	return nil
}

// onSameServers reports whether each URL of a list has the scheme, host and port of one in the list own.
func onSameServers(urls, own string) bool {
	for u := range strings.SplitSeq(urls, ",") {
		if !slices.ContainsFunc(strings.Split(own, ","), func(h string) bool { return sameOrigin(u, h) }) {
			return false
		}
	}

	return true
}

// sameOrigin reports whether two URLs have the same scheme, host and port.
func sameOrigin(a, b string) bool {
	x, errX := url.Parse(strings.TrimSpace(a))
	y, errY := url.Parse(strings.TrimSpace(b))

	return errX == nil && errY == nil && x.Scheme == y.Scheme && strings.EqualFold(x.Hostname(), y.Hostname()) &&
		port(x) == port(y)
}

func port(u *url.URL) string {
	if p := u.Port(); p != "" || u.Scheme != "https" {
		return first(p, "80")
	}

	return "443"
}

func hostOf(raw string) string {
	u, err := url.Parse(strings.TrimSpace(raw))
	if err != nil {
		return ""
	}

	return strings.ToLower(u.Hostname())
}
