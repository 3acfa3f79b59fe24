package envserver

import "net/http"

func (s *Server) health(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, map[string]string{"status": "healthy"})
}

// metadata has six keys, always; those that are not known are null.
func (s *Server) metadata(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, struct {
		Name        string `json:"name"`
		Description string `json:"description"`
		Readme      any    `json:"readme_content"`
		Version     string `json:"version"`
		Author      any    `json:"author"`
		Docs        any    `json:"documentation_url"`
	}{Name: s.o.Name, Description: s.o.Description, Version: s.o.Version})
}

func (s *Server) schema(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, doc{"action": actionSchema(), "observation": observationSchema(), "state": stateSchema()})
}
