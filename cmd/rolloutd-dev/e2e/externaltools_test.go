package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

// externalScript is AgentEnv's smoke test with a second call to the tool server. It calls tools of the tool
// server and then a tool of the sandbox.
const externalScript = `
- name: external
  match: use the skills
  hermes: true
  turns:
    - tool_calls: [{name: skills_list, arguments: {category: "<all>"}}]
    - tool_calls: [{name: skill_view, arguments: {name: one}}]
    - tool_calls: [{name: web_extract, arguments: {urls: ["http://169.254.169.254/latest/meta-data/"]}}]
    - tool_calls: [{name: terminal, arguments: {command: "echo ok > done.txt; echo ok"}}]
    - text: ok
`

// skills is a tool server that holds the first call of skill_view until release is closed.
type skills struct {
	url string

	// closed at the first call of skill_view
	arrived chan struct{}
	release chan struct{}

	mu sync.Mutex

	// uniq_ids by tool
	ids map[string][]string
}

func startSkills(t *testing.T) *skills {
	t.Helper()

	s := &skills{arrived: make(chan struct{}), release: make(chan struct{}), ids: map[string][]string{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /tools", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"tools":[
			{"type":"function","function":{"name":"skills_list","description":"lists","parameters":{"type":"object","properties":{"category":{"type":"string"}},"required":[]}}},
			{"type":"function","function":{"name":"skill_view","description":"a <b> & c","parameters":{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}}}]}`)
	})
	mux.HandleFunc("POST /execute", s.execute)
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	s.url = srv.URL

	return s
}

func (s *skills) execute(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Tool struct {
			Name   string `json:"name"`
			UniqID string `json:"uniq_id"`
		} `json:"tool"`
	}
	if r.Header.Get("Authorization") != "Bearer token-of-sixteen" || json.NewDecoder(r.Body).Decode(&in) != nil {
		w.WriteHeader(http.StatusForbidden)
		return
	}

	s.mu.Lock()
	s.ids[in.Tool.Name] = append(s.ids[in.Tool.Name], in.Tool.UniqID)
	n := len(s.ids[in.Tool.Name])
	s.mu.Unlock()

	if in.Tool.Name == "skill_view" && n == 1 {
		close(s.arrived)
		<-s.release
	}

	_ = json.NewEncoder(w).Encode(map[string]any{
		"success": true,
		"output":  fmt.Sprintf("%s: answer %d", in.Tool.Name, n),
		"uniq_id": in.Tool.UniqID,
	})
}

// The process is killed with kill -9 during a call to a tool server. The next process repeats this call
// with the same id and does not repeat earlier calls. The prompts do not change.
func TestExternalToolsKilled(t *testing.T) {
	t.Parallel()
	s, model := startSkills(t), startModel(t, externalScript)
	config := filepath.Join(t.TempDir(), "config.yaml")
	require.NoError(t, os.WriteFile(config, fmt.Appendf(nil, `
tools:
  tool_server_url: inprocess
  servers:
    skills: {url: %q, token_env: SKILLS_TOKEN}
    down: {url: "http://127.0.0.1:1"}
tool_server:
  web: {}
`, s.url), 0o600))
	srv := startDev(t, devOptions{
		modelURL: model.url,
		flags:    []string{"--config", config},
		env:      []string{"SKILLS_TOKEN=token-of-sixteen"},
	})
	id := start(t, srv.url, args{
		"instruction": "use the skills", "endpoint": "scripted", "agent": "react",
		"react":  args{"enabled_toolsets": []string{"terminal", "skills", "tool_server"}},
		"verify": []string{"test \"$(cat done.txt)\" = ok"},
	})

	<-s.arrived
	srv.kill()
	close(s.release)

	srv = srv.restart(t)
	result := finalize(t, srv.url, id)
	require.Equal(t, rollout.Completed, result.Outcome, deref(result.Error))
	require.InDelta(t, 1.0, *result.Reward, 0)
	require.Len(t, result.Attempts, 1)
	s.mu.Lock()
	list, view := s.ids["skills_list"], s.ids["skill_view"]
	s.mu.Unlock()
	require.Len(t, list, 1, "its result was kept")
	require.Len(t, view, 2)
	require.Equal(t, view[0], view[1], "the idempotency key")

	last := result.ProxyTurns[len(result.ProxyTurns)-1]
	for _, turn := range result.ProxyTurns {
		require.Nil(t, turn.PrefixBreak, "turn %d", turn.Turn)
	}

	full := get(t, srv.url+"/rollouts/"+id+"/messages")
	require.Contains(t, full, `skills_list: answer 1`)
	require.Contains(t, full, `skill_view: answer 2`)
	require.Contains(t, full, `169.254.169.254 is a link-local address`)
	require.NotContains(t, full+get(t, srv.url+"/rollouts/"+id+"/trace"), "token-of-sixteen")
	require.Equal(t, 5, last.Turn)

	// The server that is down affects only the calls of its own tools.
	execute := func(name, arguments string) string {
		body := fmt.Sprintf(
			`{"trajectory_id": "t", "tool": {"name": %q, "arguments": %s, "uniq_id": %[1]q}}`,
			name,
			arguments,
		)

		return post(t, srv.url+"/executor/execute", http.Header{}, body)
	}
	require.Contains(t, execute("terminal", `{"command": "echo works"}`), `"output":"works"`)
	require.Contains(t, execute("skill_view", `{"name": "two"}`), `"output":"skill_view: answer 3"`)
	require.Contains(t, execute("other", `{}`), `look for the tool \"other\": toolset \"down\"`)
}
