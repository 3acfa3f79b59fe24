package gateway

import "github.com/rolloutd/rolloutd/internal/trace"

// Remembered returns how many upstreams and lost engines the server keeps in memory.
func (s *Server) Remembered() (upstreams, lost int) {
	return s.upstreams.Len(), s.upstream.Engines.LostCount()
}

// ReadExperts exports ownExperts for a call that continues one with these ids, whose rows have one expert.
func ReadExperts(text []byte, rec *trace.Record, before []int32, from int) error {
	_, _, err := ownExperts(text, rec, &expertCall{ids: before, width: 1}, from)
	return err
}
