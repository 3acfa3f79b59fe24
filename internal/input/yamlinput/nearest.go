package yamlinput

import (
	"strings"

	"github.com/agnivade/levenshtein"
)

// NearestName returns the known name that is closest to an unknown one, or "" if none is close. It ignores
// the common prefix.
func NearestName(name, prefix string, known []string) string {
	name = strings.TrimPrefix(name, prefix)

	best, near := "", max(2, len(name)/3)+1
	for _, k := range known {
		if d := levenshtein.ComputeDistance(name, strings.TrimPrefix(k, prefix)); d < near {
			best, near = k, d
		}
	}

	return best
}
