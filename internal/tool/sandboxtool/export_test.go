package sandboxtool

import "github.com/rolloutd/rolloutd/internal/sandboxd/wire"

// Plain exports plain.
func Plain(raw string) string { return plain(raw) }

// Shown exports shown.
func Shown(o wire.Output) string { return shown(o) }
