package taskset

import (
	"cmp"
	"fmt"
	"math"
)

// healthcheck is a command that must succeed before the agent starts. Times are in seconds. Failures within
// the start period do not count.
type healthcheck struct {
	Command       string   `toml:"command"`
	Interval      *float64 `toml:"interval_sec"`
	Timeout       float64  `toml:"timeout_sec"`
	StartPeriod   float64  `toml:"start_period_sec"`
	StartInterval *float64 `toml:"start_interval_sec"`
	Retries       int      `toml:"retries"`
}

// Harbor's defaults.
const (
	healthInterval = 5.0
	healthTimeout  = 30.0
	healthRetries  = 3
)

// maxHealthTime bounds each time of a healthcheck, in seconds.
const maxHealthTime = 3600

// healthcheck returns the check as a command of the setup, whose output says why it failed.
func (h *harborReader) healthcheck(field string, c healthcheck) string {
	if c.Command == "" {
		h.refuse("%s: %s.command: is missing", harborFile, field)
	}

	if c.Retries < 0 {
		h.refuse("%s: %s.retries: must be at least 1, got %d", harborFile, field, c.Retries)
	}

	seconds := func(name string, given *float64, standard float64) float64 {
		if given == nil {
			return standard
		}

		if *given < 0 || *given > maxHealthTime || math.IsNaN(*given) {
			h.refuse("%s: %s.%s: must be a number of seconds up to %d, got %g", harborFile, field, name, maxHealthTime, *given)
		}

		return *given
	}

	// bash counts whole seconds; a time limit of 0 would be none
	timeout := max(1, seconds("timeout_sec", &c.Timeout, 0))
	if c.Timeout == 0 {
		timeout = healthTimeout
	}

	return fmt.Sprintf(
		`until timeout -k 1 %g bash -c %s; do
  if [ "$SECONDS" -lt %g ]; then sleep %g; continue; fi
  if [ "$((failed += 1))" -ge %d ]; then echo %s >&2; exit 1; fi
  sleep %g
done`,
		timeout,
		shellQuote(c.Command),
		math.Ceil(seconds("start_period_sec", &c.StartPeriod, 0)),
		seconds("start_interval_sec", c.StartInterval, healthInterval),
		cmp.Or(c.Retries, healthRetries),
		shellQuote(fmt.Sprintf("%s: %s failed %d times", harborFile, field, cmp.Or(c.Retries, healthRetries))),
		seconds("interval_sec", c.Interval, healthInterval),
	)
}
