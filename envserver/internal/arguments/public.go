package arguments

import (
	"maps"

	"github.com/rolloutd/rolloutd/envserver/internal/jsonvalue"
)

// secrets are the arguments whose values no message may repeat, because messages are logged.
var secrets = []string{"api_key", "hf_token"}

// maxPublic bounds the arguments that are shown, in bytes of their text.
const maxPublic = 64 << 10

// Public returns a call's arguments for display, without the secret ones. Arguments beyond maxPublic are left out.
func Public(args map[string]any) map[string]any {
	if !jsonvalue.Within(args, 0, maxPublic) {
		return map[string]any{"…": "arguments of more than 64 KiB"}
	}

	out := maps.Clone(args)
	for _, name := range secrets {
		if v := out[name]; v != nil && v != "" {
			out[name] = "…"
		}
	}

	return out
}
