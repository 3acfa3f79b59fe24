package rollout

// VersionSpan is the version of the weights that sampled a span of tokens.
type VersionSpan struct {
	Version string `json:"version"`

	// index of the span's first token, and the one after its last
	Start int `json:"start"`
	Stop  int `json:"stop"`
}

// Spanned reports whether spans follow one another and are those of count tokens.
func Spanned(spans []VersionSpan, count int) bool {
	at := 0

	for _, s := range spans {
		if s.Version == "" || s.Start != at || s.Stop < s.Start {
			return false
		}

		at = s.Stop
	}

	return at == count
}
