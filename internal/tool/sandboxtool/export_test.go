package sandboxtool

import "github.com/rolloutd/rolloutd/internal/sandboxd/wire"

// Plain is what a terminal printed as text.
func Plain(raw string) string { return plain(raw) }

// Shown is one stream as text.
func Shown(o wire.Output) string { return shown(o) }
