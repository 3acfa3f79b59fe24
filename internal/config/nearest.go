package config

import (
	"strings"

	"github.com/agnivade/levenshtein"
)

// nearest is the known name that one which is not known was most likely meant to be; "" when none is near. What all of them begin
// with says nothing of how near they are.
func nearest(name, prefix string, known []string) string {
	name = strings.TrimPrefix(name, prefix)
	best, near := "", max(2, len(name)/3)+1
	for _, k := range known {
		if d := levenshtein.ComputeDistance(name, strings.TrimPrefix(k, prefix)); d < near {
			best, near = k, d
		}
	}
	return best
}
