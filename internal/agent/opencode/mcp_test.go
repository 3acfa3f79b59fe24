package opencode_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/agent"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// wordServer is an MCP server on stdin and stdout with the tool "word".
const wordServer = `import json, sys
for line in sys.stdin:
    m = json.loads(line)
    if "id" not in m:
        continue
    result = {}
    if m["method"] == "initialize":
        result = {"protocolVersion": m["params"]["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": {"name": "w", "version": "1"}}
    elif m["method"] == "tools/list":
        result = {"tools": [{"name": "word", "description": "Returns the word of the day.", "inputSchema": {"type": "object", "properties": {}}}]}
    elif m["method"] == "tools/call":
        result = {"content": [{"type": "text", "text": "the word is " + sys.argv[1]}]}
    print(json.dumps({"jsonrpc": "2.0", "id": m["id"], "result": result}), flush=True)
`

// extended is a job with the server and a folder of skills.
func extended(server ...string) agent.Job {
	return agent.Job{
		Instruction: "say the word", MaxOutput: 4096, Launch: 1, Skills: rollout.Workdir + "/skills",
		MCPServers: []rollout.MCPServer{{
			Name: "words", Transport: rollout.MCPStdio, Command: server[0], Args: server[1:],
		}},
	}
}

// The agent has the tools of the task's MCP server and its skills, beside its own.
func TestServersAndSkillsOfTheTask(t *testing.T) {
	t.Parallel()

	w := newTestAgent(t, `turns:
  - tool_calls: [{name: words_word, arguments: {}}]
  - tool_calls: [{name: skill, arguments: {name: counting}}]
  - text: Done.
`)
	w.put(t, "words.py", wordServer)
	w.put(t, "skills/counting/SKILL.md", "---\nname: counting\ndescription: how to count\n---\nUse your fingers.\n")

	r := w.begin(t, w.agent(), extended("python3", rollout.Workdir+"/words.py", "heron"))
	st := w.finish(t, r)
	require.True(t, st.Answered(), "%+v", st)

	sent := w.Sent(t)
	require.Len(t, sent, 3)

	_, names := toolNames(t, sent[0])
	require.Subset(t, names, []string{"bash", "words_word", "skill"})
	require.Contains(t, string(sent[1].Request), "the word is heron")
	require.Contains(t, string(sent[2].Request), "Use your fingers.")
}

// A task whose MCP server does not start, or whose skills are missing, fails before the agent has its instruction.
func TestServersAndSkillsThatAreMissing(t *testing.T) {
	t.Parallel()

	for name, c := range map[string]struct {
		server []string
		skills string
		want   string
	}{
		"no server": {[]string{"/nowhere/server"}, "skills/a.md", `sandbox.mcp_servers[0]: server "words" is not connected: failed`},
		"it ends":   {[]string{"false"}, "skills/a.md", `sandbox.mcp_servers[0]: server "words" is not connected: failed`},
		"no skills": {[]string{"true"}, "other/a.md", "sandbox.skills_dir: the sandbox has no folder /home/user/workdir/skills"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			w := newTestAgent(t, "turns: [{text: done}]")
			w.put(t, c.skills, "x")

			r, err := w.agent().Open(t.Context(), w.Env(), extended(c.server...))
			require.NoError(t, err)
			t.Cleanup(r.Close)

			_, err = r.Next(t.Context())
			require.True(t, fault.Is(err, fault.SetupFailed), "%v", err)
			require.ErrorContains(t, err, c.want)
			require.Empty(t, w.Sent(t))
		})
	}
}
