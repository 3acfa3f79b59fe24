package gateway

// Remembered returns how many upstreams and lost engines the server keeps in memory.
func (s *Server) Remembered() (upstreams, lost int) {
	return s.upstreams.Len(), s.upstream.Engines.LostCount()
}
