//go:build !linux

package timerslack

import "time"

// Set does nothing: other systems have no such setting.
func Set(time.Duration) error { return nil }
