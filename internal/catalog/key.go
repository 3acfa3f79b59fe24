package catalog

import (
	"golang.org/x/net/http/httpguts"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// key is the API key for a model at urls. A key of the server's environment is sent only to the server's
// own URLs of that endpoint: a client could otherwise have it sent to any host.
func (c *Catalog) key(a mergedRequest, urls string) (string, error) {
	if onSameServers(urls, c.ownURL(a)) {
		return c.field("api_key", a, a.apiKey, a.ep.apiKey)
	}

	if key := first(a.apiKey.value, a.ep.apiKey.fallback); key != "" {
		return key, nil
	}

	return "", fault.Field(a.apiKey.name,
		"must be set for endpoint %s with a base_url: the server sends its own key (%s) only to its own URL",
		a.ep.name, a.ep.apiKey.env)
}

// ownURL is the server's own URL of the endpoint; "": it has none.
func (c *Catalog) ownURL(a mergedRequest) string {
	return first(c.getenv(a.ep.baseURL.env), a.ep.baseURL.fallback)
}

// sendable is false for a key that no header can carry, such as one read from a file with the line break at
// its end. All calls would fail, and all rollouts on the endpoint would wait for it.
func sendable(key string) bool { return httpguts.ValidHeaderFieldValue(key) }

func unsendable(a mergedRequest) error {
	if a.apiKey.value != "" || a.ep.apiKey.env == "" {
		return fault.Field(a.apiKey.name,
			"must not have a line break or another character that no HTTP header can carry")
	}

	return fault.Field(a.apiKey.name,
		"%s in the server's environment must not have a line break or another character that no HTTP header can carry",
		a.ep.apiKey.env)
}
