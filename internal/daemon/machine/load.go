package machine

import (
	"fmt"
	"os"
)

// Load is the machine's load average over the last minute; 0 if it cannot be read.
func Load() float64 {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0
	}

	var load float64
	if _, err := fmt.Sscan(string(text), &load); err != nil {
		return 0
	}

	return load
}
