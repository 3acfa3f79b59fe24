package sequence

import (
	"iter"
	"regexp"
	"strconv"
	"strings"
)

var digits = regexp.MustCompile(`\d+`)

// OldestVersion returns the oldest version of the weights that sampled a token to train on: the last number
// in the endpoint's version name. false: the endpoint reported none.
func (s *Sequence) OldestVersion() (oldest int64, known bool) {
	for name := range s.Versions() {
		v, ok := versionNumber(name)
		if ok && (!known || v < oldest) {
			oldest, known = v, true
		}
	}

	return oldest, known
}

// Versions returns the versions of the weights that sampled tokens to train on, in order and with
// repetitions, under the endpoint's names. Replies without a version are left out.
func (s *Sequence) Versions() iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, span := range s.Spans {
			if !span.Train || span.ModelVersion == "" {
				continue
			}

			for _, v := range span.Versions {
				if !yield(v.Version) {
					return
				}
			}

			if len(span.Versions) > 0 {
				continue
			}
			// "a..b": it changed during the reply
			for name := range strings.SplitSeq(span.ModelVersion, "..") {
				if !yield(name) {
					return
				}
			}
		}
	}
}

func versionNumber(name string) (int64, bool) {
	all := digits.FindAllString(name, -1)
	if len(all) == 0 {
		return 0, false
	}

	v, err := strconv.ParseInt(all[len(all)-1], 10, 64)

	return v, err == nil
}
