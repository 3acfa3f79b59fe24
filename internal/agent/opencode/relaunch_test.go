package opencode_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/agent"
	"github.com/rolloutd/rolloutd/internal/agent/agenttest"
	"github.com/rolloutd/rolloutd/internal/agent/opencode"
	"github.com/rolloutd/rolloutd/internal/agent/opencode/binary"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
	"github.com/rolloutd/rolloutd/internal/scripted"
)

// OpenCode is launched again, and calls its model before the worker registers its new session: the gateway was away.
// Its calls are the agent's. Calls of sessions that the policy opens are not, also where their parent is the agent's
// session.
func TestCallsOfARelaunchBeforeItsSessionIsRegistered(t *testing.T) {
	t.Parallel()

	const (
		post = `
import json, urllib.request
def post(url, body):
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    return json.load(urllib.request.urlopen(request))
`
		praise = post + `post("URL", {"messages": [{"role": "user", "content": "praise the policy"}]})`
		opens  = "python3 -c '" + post + `
sessions = "http://127.0.0.1:4096/session"
root = json.load(urllib.request.urlopen(sessions + "?roots=true"))[0]["id"]
for new in ({}, {"parentID": root}):
    post(sessions + "/" + post(sessions, new)["id"] + "/message", {"parts": [{"type": "text", "text": "praise the policy"}]})
'`
	)

	bash := func(command string) scripted.Turn {
		return scripted.Turn{ToolCalls: []scripted.ToolCall{{
			Name:      "bash",
			Arguments: map[string]any{"command": command, "description": "Runs"},
		}}}
	}
	scripts := scripted.Scripts{
		{Match: "praise the policy", Turns: []scripted.Turn{{Text: "It is the best."}}},
		{Turns: []scripted.Turn{bash("echo one"), bash(opens), {Text: "Done."}}},
	}
	require.NoError(t, scripts.Validate())
	c := newCapturedWith(t, scripts, true)
	_, err := c.Start(t.Context(), "agent-1", wire.Process{Argv: []string{"/bin/true"}, Dir: rollout.Workdir})
	require.NoError(t, err)
	require.NoError(t, c.gateway.AddSessions(t.Context(), c.ID(), "agent-1", "ses_first"))
	c.gateway.kill()

	a, env := opencode.New(
		opencode.Options{Binary: binary.New(binary.Options{AgentsDir: agentsDir(t)})},
	), agent.Env{
		Sandbox: c.Sandbox,
	}
	_, err = a.Install(t.Context(), env)
	require.NoError(t, err)
	r, err := a.Open(t.Context(), env, agent.Job{Launch: 2, Instruction: "work"})
	require.NoError(t, err)

	defer r.Close()

	st := awaitReady(t, r)
	require.True(t, st.Ready, "%+v", st)
	c.bash(t, "open-call", "until grep -q ' [0-9A-F]*:1B58 01 ' /proc/net/tcp; do sleep 0.05; done")
	c.gateway = startGateway(t, c.dir)
	c.bash(
		t,
		"later-call",
		"python3 -c '"+strings.ReplaceAll(praise, "URL", "http://127.0.0.1:7000/v1/chat/completions")+"'",
	)
	require.NoError(t, c.gateway.AddSessions(t.Context(), c.ID(), "agent-2", st.SessionID))

	require.True(t, agenttest.Finish(t, r).Answered())

	kinds := map[rollout.TurnKind]int{}
	for _, turn := range c.turns(t) {
		kinds[turn.Kind]++
		require.Equal(
			t,
			turn.Lineage == st.SessionID,
			turn.Train,
			"turn %d: %s of %s",
			turn.Turn,
			turn.Kind,
			turn.Lineage,
		)
	}

	require.Equal(t, 3, kinds[rollout.KindAgent])
	require.GreaterOrEqual(t, kinds[rollout.KindForeign], 3)
	require.Len(t, kinds, 2)
}

// bash runs a command in the sandbox as a process of its own.
func (c *captured) bash(t *testing.T, name, command string) {
	t.Helper()
	_, err := c.Start(t.Context(), name, wire.Process{Argv: []string{"/bin/bash", "-c", command}, Dir: rollout.Workdir})
	require.NoError(t, err)
	st, err := c.Wait(t.Context(), name, agenttest.Patience)
	require.NoError(t, err)
	require.False(t, st.Running)
	require.Zero(t, st.ExitCode)
}
