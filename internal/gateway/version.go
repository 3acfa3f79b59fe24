package gateway

import "net/http"

// versionOf is what a response's headers say of the model's weights. No engine has a custom there; these are the two names
// that routers in front of engines use. What the reply itself says comes after it.
func versionOf(h http.Header) string {
	if v := h.Get("X-Model-Version"); v != "" {
		return v
	}
	return h.Get("X-Weight-Version")
}
