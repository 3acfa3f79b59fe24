package opencode_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/agent"
	"github.com/rolloutd/rolloutd/internal/agent/opencode"
	"github.com/rolloutd/rolloutd/internal/host/network"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

// The agent completes a demo task. Every model call extends the previous one, and the transcript and the
// log record the work.
func TestWholeTask(t *testing.T) {
	t.Parallel()

	w, b := newTestAgent(t, ""), newTask(t, "binary_search")
	for path, text := range b.Files {
		w.put(t, path, text)
	}

	job := agent.Job{Instruction: b.Instruction, MaxOutput: 4096, Launch: 1}
	a := w.agent()
	r := w.begin(t, a, job)
	st := w.finish(t, r)
	require.Zero(t, st.ExitCode, st.Error)
	require.WithinDuration(t, time.Now(), st.LastSign, time.Minute)

	verifier := w.As(wire.VerifierUser)
	for name, text := range b.TestFiles {
		require.NoError(t, verifier.WriteFile(t.Context(), wire.VerifierTests+"/"+name, strings.NewReader(text), 0o600))
	}

	for i, command := range b.Verify {
		out, status := w.run(t, "verify-"+string(rune('0'+i)), command, wire.VerifierUser)
		require.Zero(t, status, out)
	}

	sent := w.Sent(t)
	require.Len(t, sent, 6)
	require.Equal(t, b.Instruction, lastUser(t, sent[0]))

	for i := range sent {
		require.True(t, sent[i].Complete)
		require.Equal(t, st.SessionID, sent[i].Session)

		if i > 0 {
			before := append(sent[i-1].PromptTokenIDs, sent[i-1].CompletionTokenIDs...)
			require.Equal(t, before, sent[i].PromptTokenIDs[:len(before)], "call %d", i)
		}
	}

	transcript, err := r.Transcript(t.Context())
	require.NoError(t, err)
	require.Equal(t, st.SessionID, transcript.SessionID)
	require.Len(t, transcript.Messages, 7)

	log := string(opencode.AgentLog(transcript))
	for kind, n := range map[string]int{"step_start": 6, "step_finish": 6, "tool_use": 5, "text": 5, "error": 0} {
		require.Equal(t, n, strings.Count(log, `{"type":"`+kind+`","timestamp"`), "%s in %s", kind, log)
	}

	require.Contains(t, log, "IndexError")
}

// If a worker dies after it started the agent, the next worker starts nothing twice.
func TestAttachAfterACrash(t *testing.T) {
	t.Parallel()
	w := newTestAgent(t, `
pace: {delay: 300ms}
turns:
  - tool_calls: [{name: bash, arguments: {command: "echo once >> proof; sleep 1", description: "Leaves a proof"}}]
  - text: done
`)
	job := agent.Job{Instruction: "leave a proof", Launch: 1}
	first, err := w.begin(t, w.agent(), job).Next(t.Context())
	require.NoError(t, err)
	process, err := w.Status(t.Context(), "agent-1")
	require.NoError(t, err)
	require.Eventually(t, func() bool { return w.Calls.Load() > 0 }, 5*time.Minute, 10*time.Millisecond)

	var next agent.Run
	for range 2 {
		next = w.begin(t, w.agent(), job)
	}

	st := w.finish(t, next)
	require.Zero(t, st.ExitCode, st.Error)
	require.Equal(t, first.SessionID, st.SessionID)
	after, err := w.Status(t.Context(), "agent-1")
	require.NoError(t, err)
	require.Equal(t, process.PID, after.PID)
	require.Len(t, w.Sent(t), 2)
	require.Equal(t, job.Instruction, lastUser(t, w.Sent(t)[1]))
	out, _ := w.bash(t, "proof", "cat proof")
	require.Equal(t, "once\n", out)
	// attach after the end, too
	over := w.finish(t, w.begin(t, w.agent(), job))
	require.Equal(t, st.SessionID, over.SessionID)
	require.Len(t, w.Sent(t), 2)
}

// Stop during a reply ends the generation at once and kills the process. The transcript keeps the partial reply.
func TestStopDuringAReply(t *testing.T) {
	t.Parallel()
	w := newTestAgent(t, "turns: [{text: half of an answer, faults: [{hang_after: 2}]}]")
	job := agent.Job{Instruction: "go", Launch: 1}
	r := w.begin(t, w.agent(), job)
	require.Eventually(t, func() bool {
		transcript, err := r.Transcript(t.Context())
		return err == nil && strings.Contains(string(opencode.AgentLog(transcript)), `"step_start"`)
	}, 5*time.Minute, 20*time.Millisecond)

	require.NoError(t, w.attach(t).Stop(t.Context()))
	require.Eventually(t, func() bool { return len(w.Sent(t)) == 1 }, 5*time.Minute, 10*time.Millisecond)
	require.False(t, w.Sent(t)[0].Complete)
	process, err := w.Status(t.Context(), "agent-1")
	require.NoError(t, err)
	require.False(t, process.Running)
	require.NoError(t, w.attach(t).Stop(t.Context()))

	st := w.finish(t, w.attach(t))
	require.NotZero(t, st.ExitCode)
	require.Contains(t, st.Error, "killed")
	transcript, err := w.attach(t).Transcript(t.Context())
	require.NoError(t, err)
	require.Contains(t, string(opencode.AgentLog(transcript)), "MessageAbortedError")
	require.Contains(t, string(opencode.AgentLog(transcript)), "half of")
}

// A refusal that no retry can fix ends the agent with the model's message after one call.
func TestRefusalEndsTheAgent(t *testing.T) {
	t.Parallel()
	w := newTestAgent(t, "turns: [{text: x, faults: [{status: 401, message: no such key}]}]")
	job := agent.Job{Instruction: "go", Launch: 1}
	a := w.agent()
	r := w.begin(t, a, job)
	st := w.finish(t, r)
	require.Equal(t, 1, st.ExitCode)
	require.Equal(t, "APIError: no such key", st.Error)
	require.EqualValues(t, 1, w.Calls.Load())
	transcript, err := r.Transcript(t.Context())
	require.NoError(t, err)
	require.Contains(t, string(opencode.AgentLog(transcript)), `{"type":"error"`)
}

// A project's own configuration is used if the job permits it, but it cannot make the agent wait for a person.
func TestProjectConfiguration(t *testing.T) {
	t.Parallel()

	for name, obey := range map[string]bool{"obeyed": true, "ignored": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newTestAgent(t, `
turns:
  - tool_calls: [{name: bash, arguments: {command: "echo ran > /tmp/proof; cat .env", description: "Runs"}}, {name: read, arguments: {filePath: /home/user/workdir/.env}}]
  - text: done
`)
			w.put(t, "AGENTS.md", "Speak like a pirate.")
			w.put(t, ".env", "A=1")
			w.put(
				t,
				"opencode.json",
				`{"permission":{"bash":"ask","read":"ask","edit":"ask"},"agent":{"build":{"permission":{"bash":"ask"}}}}`,
			)

			job := agent.Job{Instruction: "go", Launch: 1, ObeyProject: obey}
			a := w.agent()
			r := w.begin(t, a, job)
			require.Zero(t, w.finish(t, r).ExitCode)
			require.Equal(t, obey, strings.Contains(string(w.Sent(t)[0].Request), "Speak like a pirate."))
			out, _ := w.bash(t, "proof", "cat /tmp/proof")
			require.Equal(t, "ran\n", out)
		})
	}
}

// What the model receives and the agent's commands have. One session shows it, because OpenCode takes seconds of processor
// time to start. The host's folder cannot be mounted, so the agent works from the uploaded copy.
func TestOneSession(t *testing.T) {
	t.Parallel()

	const odd = "-x --help /init @README.md\r\n\t\"quoted\" 'and' `so` $(echo no) \\n \\ <b>&amp;</b>\n\n日本語 🙂 e\u0301 \u202ertl\u202c \u2028 \x01 {file:/etc/passwd} {env:HOME} !`id`\n \n"

	w := newTestAgentWithMount(t, `
turns:
  - tool_calls:
      - {name: grep, arguments: {pattern: needle}}
      - {name: glob, arguments: {pattern: "*.txt"}}
      - {name: bash, arguments: {description: look, command: "echo by=$http_proxy"}}
  - text: done
`, false)
	w.put(t, "hay.txt", "hay\nneedle\n")
	// no proxy listens at that address
	w.Sandbox = w.Sandbox.WithEnv(network.Env(""))

	r := w.begin(t, w.agent(), agent.Job{Instruction: odd, Launch: 1, MaxOutput: 1234})
	st := w.finish(t, r)
	require.True(t, st.Answered(), "%+v", st)

	transcript, err := r.Transcript(t.Context())
	require.NoError(t, err)

	log := string(opencode.AgentLog(transcript))
	request, names := toolNames(t, w.Sent(t)[0])

	t.Run("the model receives any instruction byte for byte", func(t *testing.T) {
		require.Equal(t, odd, lastUser(t, w.Sent(t)[0]))
	})
	t.Run("tools that need a person, the internet or another agent are not offered", func(t *testing.T) {
		require.ElementsMatch(t, []string{"bash", "edit", "glob", "grep", "read", "todowrite", "write"}, names)
	})
	t.Run("the bound of a reply is that of the job", func(t *testing.T) {
		require.EqualValues(t, 1234, request["max_tokens"])
	})
	t.Run("ripgrep works without a network", func(t *testing.T) {
		require.Contains(t, log, "Found 1 match")
	})
	t.Run("the proxy of a task with a network is for the agent's commands, not for model calls", func(t *testing.T) {
		require.Contains(t, log, "by=http://127.0.0.1:7001")
	})
}
