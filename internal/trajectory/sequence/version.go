package sequence

import (
	"regexp"
	"strconv"
	"strings"
)

var digits = regexp.MustCompile(`\d+`)

// OldestVersion is the oldest version of the weights that sampled a token to train on: the last number in what the endpoint said. false: it
// said none.
func (s *Sequence) OldestVersion() (oldest int64, known bool) {
	for _, span := range s.Spans {
		if !span.Train {
			continue
		}
		for _, name := range strings.SplitN(span.ModelVersion, "..", 2) { // "a..b": it changed during the reply
			v, ok := versionNumber(name)
			if ok && (!known || v < oldest) {
				oldest, known = v, true
			}
		}
	}
	return oldest, known
}

func versionNumber(name string) (int64, bool) {
	all := digits.FindAllString(name, -1)
	if len(all) == 0 {
		return 0, false
	}
	v, err := strconv.ParseInt(all[len(all)-1], 10, 64)
	return v, err == nil
}
