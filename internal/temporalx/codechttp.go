package temporalx

import (
	"net/http"
	"slices"

	"go.temporal.io/sdk/converter"

	"github.com/rolloutd/rolloutd/internal/seal"
)

// maxCodecBody bounds one request of the Temporal UI: at most a page of history.
const maxCodecBody = 32 << 20

// CodecHandler decrypts (POST …/decode) and encrypts (POST …/encode) payloads for the Temporal UI, whose
// page runs at one of the given origins (such as "http://127.0.0.1:8233"). Browsers at other origins are
// refused, so that no other page reads rollouts through it.
func CodecHandler(key seal.Key, allowedOrigins []string) http.Handler {
	codec := converter.NewPayloadCodecHTTPHandler(Codecs(key)...)
	origins := slices.Clone(allowedOrigins)

	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// A page of another site that sends no Origin, or "null" by a sandboxed frame, is known by this header only.
		site := r.Header.Get("Sec-Fetch-Site")
		if (site == "cross-site" || site == "same-site") && r.Header.Get("Origin") == "" {
			http.Error(w, "origin not allowed", http.StatusForbidden)
			return
		}

		if origin := r.Header.Get("Origin"); origin != "" {
			if !slices.Contains(origins, origin) {
				http.Error(w, "origin not allowed", http.StatusForbidden)
				return
			}

			allowOrigin(w.Header(), origin)
		}

		if r.Method == http.MethodOptions {
			w.WriteHeader(http.StatusNoContent)
			return
		}

		r.Body = http.MaxBytesReader(w, r.Body, maxCodecBody)
		codec.ServeHTTP(w, r)
	})
}

func allowOrigin(h http.Header, origin string) {
	h.Set("Access-Control-Allow-Origin", origin)
	h.Set("Access-Control-Allow-Methods", "POST, OPTIONS")
	h.Set("Access-Control-Allow-Headers", "Content-Type, X-Namespace, Authorization")
	h.Set("Access-Control-Allow-Credentials", "true")
	h.Set("Vary", "Origin")
}
