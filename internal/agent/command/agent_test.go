package command_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/agent"
	"github.com/rolloutd/rolloutd/internal/agent/agenttest"
	"github.com/rolloutd/rolloutd/internal/agent/command"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandbox"
)

// shell is an agent that runs its instruction as a command.
func shell() command.Spec {
	return command.Spec{Name: "shell", Command: []string{"bash", "--noprofile", "--norc"}}
}

func TestAgentOfTheImagePassesTheSuite(t *testing.T) {
	t.Parallel()
	agenttest.Run(t, agenttest.Harness{
		Backend:  func(t *testing.T) *sandbox.Backend { return newBackend(t, "") },
		Agent:    func(t *testing.T) agent.Agent { return newAgent(t, shell(), command.Options{}) },
		Quick:    agent.Job{Instruction: "echo done"},
		Endless:  &agent.Job{Instruction: "sleep infinity"},
		Loud:     &agent.Job{Instruction: `yes '{"a":1}' | head -c 9000000`},
		Messages: true,
	})
}

// tool returns an agent whose files are in a folder on the host.
func tool(t *testing.T) (command.Spec, command.Options) {
	t.Helper()
	folder := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(folder, "bin"), 0o700))
	require.NoError(
		t,
		os.WriteFile(filepath.Join(folder, "bin", "tool"), []byte("#!/bin/bash\necho \"$@\"; cat\n"), 0o700),
	)
	require.NoError(t, os.Symlink("tool", filepath.Join(folder, "bin", "link")))
	s := command.Spec{
		Name:    "tool",
		Folder:  folder,
		Check:   []string{"tool", "--version"},
		Command: []string{"{dir}/bin/link", "{max_tokens}"},
	}
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o755))

	return s, command.Options{AgentsDir: dir}
}

// The folder is mounted if the sandbox sees the host's agents, and uploaded otherwise.
func TestFolder(t *testing.T) {
	t.Parallel()

	for _, how := range []string{"mounted", "uploaded"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			s, o := tool(t)

			mount := ""
			if how == "mounted" {
				mount = o.AgentsDir
			}

			p := agenttest.NewPlace(t, newBackend(t, mount), "")

			a := newAgent(t, s, o)
			for range 2 {
				said, err := a.Install(t.Context(), p.Env())
				require.NoError(t, err)
				require.Contains(t, said, how)
				require.Contains(t, said, "--version", "what the check wrote")
			}

			r, err := a.Open(t.Context(), p.Env(), agent.Job{Instruction: "do it", MaxOutput: 77})
			require.NoError(t, err)
			require.True(t, agenttest.Finish(t, r).Answered())
			out, err := r.Output(t.Context(), 100)
			require.NoError(t, err)
			require.Equal(t, "77\ndo it", string(out))
		})
	}
}

func TestOpenBeforeInstall(t *testing.T) {
	t.Parallel()
	s, o := tool(t)
	p := agenttest.NewPlace(t, newBackend(t, ""), "")
	_, err := newAgent(t, s, o).Open(t.Context(), p.Env(), agent.Job{})
	require.True(t, fault.Is(err, fault.NotFound), "%v", err)
}

// A failing check reports its reason before the agent's time starts.
func TestFailingCheck(t *testing.T) {
	t.Parallel()
	p := agenttest.NewPlace(t, newBackend(t, ""), "")
	s := shell()
	s.Check = []string{"bash", "-c", "echo no node >&2; exit 3"}
	_, err := newAgent(t, s, command.Options{}).Install(t.Context(), p.Env())
	require.True(t, fault.Is(err, fault.Invalid), "%v", err)
	require.ErrorContains(t, err, "shell does not run in this sandbox")
	require.ErrorContains(t, err, "no node")
}

// The instruction arrives byte for byte as standard input, as an argument and as a file.
func TestInstructionArrivesVerbatim(t *testing.T) {
	t.Parallel()

	const odd = "-x {dir} {max_tokens} \"quoted\" 'and' $(echo no) \\n 日本語 🙂\n \n"

	for name, argv := range map[string][]string{
		"stdin": {"cat"}, "argument": {"printf", "%s", "{instruction}"}, "file": {"cat", "{instruction_file}"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := agenttest.NewPlace(t, newBackend(t, ""), "")
			s := shell()
			s.Command = argv
			r, err := newAgent(t, s, command.Options{}).Open(t.Context(), p.Env(), agent.Job{Instruction: odd})
			require.NoError(t, err)
			require.True(t, agenttest.Finish(t, r).Answered())
			out, err := r.Output(t.Context(), 1000)
			require.NoError(t, err)
			require.Equal(t, odd, string(out))
		})
	}

	s := shell()
	s.Command = []string{"echo", "{instruction}"}
	_, err := newAgent(t, s, command.Options{}).Open(t.Context(), agenttest.NewPlace(t, newBackend(t, ""), "").Env(),
		agent.Job{Instruction: strings.Repeat("x", 200<<10)})
	require.True(t, fault.Is(err, fault.Invalid), "%v", err)
}

// The exit code decides how the agent ended. A spec may also name patterns of failure and of success in the output.
func TestEnds(t *testing.T) {
	t.Parallel()

	const failure, result = `"is_error": ?true`, `"type":"result"`

	for name, c := range map[string]struct{ does, wrong string }{
		"well":               {`echo '{"type":"result","is_error":false}'`, ""},
		"with an exit code":  {`echo '{"type":"result"}'; echo broken >&2; exit 7`, "shell exited with code 7; its stderr ends with: broken"},
		"killed":             {`kill -9 $$`, "shell was killed by signal"},
		"with a failure":     {`echo '{"type":"result","is_error": true}'`, `shell reported a failure: {"type":"result","is_error": true}`},
		"without its result": {`echo '{"type":"hello"}'`, "shell ended without a result in its output"},
		"in silence":         {`:`, "shell ended without a result in its output"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := agenttest.NewPlace(t, newBackend(t, ""), "")
			s := shell()
			s.Failure, s.Result = failure, result
			r, err := newAgent(t, s, command.Options{}).Open(t.Context(), p.Env(), agent.Job{Instruction: c.does})
			require.NoError(t, err)
			st := agenttest.Finish(t, r)
			require.Equal(t, c.wrong == "", st.Answered())
			require.Contains(t, st.Error, c.wrong)
		})
	}
}

// The transcript is the agent's record if it writes one, otherwise its output. A record that is a link, too
// large or not a file is ignored.
func TestTranscript(t *testing.T) {
	t.Parallel()

	for name, c := range map[string]struct{ does, want string }{
		"a record":       {`echo '{"a":1}' > /tmp/record; echo noise`, `{"a":1}`},
		"none":           {`echo words`, `{"role":"assistant","content":"words"}`},
		"a link":         {`ln -s /etc/passwd /tmp/record; echo words`, `{"role":"assistant","content":"words"}`},
		"a giant":        {`head -c 3000000 /dev/zero > /tmp/record; echo words`, `{"role":"assistant","content":"words"}`},
		"not a file":     {`mkdir /tmp/record; echo words`, `{"role":"assistant","content":"words"}`},
		"a pipe":         {`mkfifo /tmp/record; echo words`, `{"role":"assistant","content":"words"}`},
		"an empty one":   {`touch /tmp/record; echo words`, ""},
		"nothing at all": {`:`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := agenttest.NewPlace(t, newBackend(t, ""), "")
			s := shell()
			s.Output = "/tmp/record"
			r, err := newAgent(t, s, command.Options{}).Open(t.Context(), p.Env(), agent.Job{Instruction: c.does})
			require.NoError(t, err)
			require.True(t, agenttest.Finish(t, r).Answered())

			got, err := r.Transcript(t.Context())
			if c.want == "" {
				require.True(t, fault.Is(err, fault.NotFound), "%v", err)
				return
			}

			require.NoError(t, err)
			require.Len(t, got.Messages, 1)
			require.JSONEq(t, c.want, string(got.Messages[0]))
		})
	}
}

// Agents find the model under the environment variables of the usual client libraries. They get no key.
func TestEnvironment(t *testing.T) {
	t.Parallel()
	p := agenttest.NewPlace(t, newBackend(t, ""), "")
	s := shell()
	s.Command, s.Env = []string{"env"}, map[string]string{"MINE": "{model_host}/x", "TERM": "xterm"}
	s.Files = map[string]string{rollout.Home + "/.config/tool.json": `{"url":"{model_url}"}`}
	r, err := newAgent(t, s, command.Options{}).Open(t.Context(), p.Env(), agent.Job{})
	require.NoError(t, err)
	agenttest.Finish(t, r)
	out, err := r.Output(t.Context(), 10_000)
	require.NoError(t, err)

	for _, want := range []string{
		"OPENAI_BASE_URL=http://127.0.0.1:7000/v1", "OPENAI_API_KEY=none", "ANTHROPIC_BASE_URL=http://127.0.0.1:7000", "GOOGLE_GEMINI_BASE_URL=http://127.0.0.1:7000",
		"MINE=http://127.0.0.1:7000/x", "TERM=xterm", "HOME=/home/user",
	} {
		require.Contains(t, strings.Split(string(out), "\n"), want)
	}

	text, err := p.ReadFile(t.Context(), rollout.Home+"/.config/tool.json", 100)
	require.NoError(t, err)
	require.Equal(t, `{"url":"http://127.0.0.1:7000/v1"}`, string(text))
}
