package opencode_test

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/agent"
	"github.com/rolloutd/rolloutd/internal/agent/opencode"
	"github.com/rolloutd/rolloutd/internal/agent/opencode/binary"
	"github.com/rolloutd/rolloutd/internal/fault"
)

const fakeBinary = "#!/bin/sh\necho I am opencode\n"

// fakeBinaryAgent returns an agent whose host has fakeBinary as version 1.2.3.
func fakeBinaryAgent(t *testing.T) *opencode.Agent {
	t.Helper()

	sum := sha256.Sum256([]byte(fakeBinary))
	b := binary.New(binary.Options{
		AgentsDir: t.TempDir(),
		Version:   "1.2.3",
		Platform:  "linux/amd64",
		Releases: []binary.Release{
			{Version: "1.2.3", Platform: "linux/amd64", SHA256: hex.EncodeToString(sum[:])},
		},
	})
	require.NoError(t, os.MkdirAll(filepath.Dir(b.Path()), 0o755))
	require.NoError(t, os.WriteFile(b.Path(), []byte(fakeBinary), 0o755))

	return opencode.New(opencode.Options{Binary: b})
}

// If the host's folder is not mounted in the sandbox, the binary is uploaded once.
func TestInstallUploadsWithoutAMount(t *testing.T) {
	t.Parallel()
	a, b := fakeBinaryAgent(t), &fakeSandbox{}
	said, err := a.Install(t.Context(), agent.Env{Sandbox: b})
	require.NoError(t, err)
	require.Equal(t, "opencode 1.2.3, checksum verified, uploaded at /tmp/.rolloutd/opencode/1.2.3/opencode", said)
	require.Equal(t, fakeBinary, string(b.files["/tmp/.rolloutd/opencode/1.2.3/opencode"]))

	b.files["/tmp/.rolloutd/opencode/1.2.3/opencode"] = nil
	_, err = a.Install(t.Context(), agent.Env{Sandbox: b})
	require.NoError(t, err)
	require.Nil(t, b.files["/tmp/.rolloutd/opencode/1.2.3/opencode"], "uploaded a second time")
}

func TestInstallUsesTheMount(t *testing.T) {
	t.Parallel()
	a := fakeBinaryAgent(t)
	b := &fakeSandbox{files: map[string][]byte{"/opt/rolloutd/agents/opencode/1.2.3/models.json": []byte("{}")}}
	said, err := a.Install(t.Context(), agent.Env{Sandbox: b})
	require.NoError(t, err)
	require.Contains(t, said, "mounted at /opt/rolloutd/agents/opencode/1.2.3/opencode")

	// The archive has the stub that keeps OpenCode from installing its plugin package.
	r := tar.NewReader(bytes.NewReader(b.files["/home/user/.config/opencode.tar"]))
	h, err := r.Next()
	require.NoError(t, err)
	require.Equal(t, "node_modules/", h.Name)
	h, err = r.Next()
	require.NoError(t, err)
	require.Equal(t, "package-lock.json", h.Name)

	text, err := io.ReadAll(r)
	require.NoError(t, err)
	require.JSONEq(t, `{"packages":{"":{"dependencies":{"@opencode-ai/plugin":"1.2.3"}}}}`, string(text))
}

func TestOpenBeforeInstallIsAnError(t *testing.T) {
	t.Parallel()
	_, err := opencode.New(opencode.Options{Binary: binary.New(binary.Options{})}).
		Open(t.Context(), agent.Env{Sandbox: &fakeSandbox{}}, testJob())
	require.True(t, fault.Is(err, fault.NotFound), "%v", err)
	require.ErrorContains(t, err, "Install comes before Open")
}

// The configuration keeps OpenCode from asking a person, uses a neutral model name, and has no secrets.
func TestLaunch(t *testing.T) {
	t.Parallel()
	_, b, a := newFake(t)
	_, err := a.Open(t.Context(), agent.Env{Sandbox: b}, testJob())
	require.NoError(t, err)

	p := b.started[0]
	require.Equal(t, []string{
		"/opt/rolloutd/agents/opencode/1.18.33/opencode", "serve", "--port", "4096", "--hostname", "127.0.0.1",
		"--print-logs", "--log-level", "INFO",
	}, p.Argv)
	require.Equal(t, "/home/user/workdir", p.Dir)
	require.Empty(t, p.Stdin)
	config := p.Env["OPENCODE_CONFIG_CONTENT"]
	delete(p.Env, "OPENCODE_CONFIG_CONTENT")
	require.Equal(t, map[string]string{
		"HOME":                             "/home/user",
		"USER":                             "user",
		"PATH":                             "/usr/local/bin:/usr/bin:/bin",
		"TMPDIR":                           "/tmp",
		"LANG":                             "C.UTF-8",
		"OPENCODE_MODELS_PATH":             "/opt/rolloutd/agents/opencode/1.18.33/models.json",
		"OPENCODE_DISABLE_MODELS_FETCH":    "1",
		"OPENCODE_DISABLE_AUTOUPDATE":      "1",
		"OPENCODE_DISABLE_FFF":             "1",
		"OPENCODE_PURE":                    "1",
		"OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
		"OPENCODE_DB":                      ":memory:",
		"OPENCODE_DISABLE_PROJECT_CONFIG":  "1",
		"OPENCODE_DISABLE_EXTERNAL_SKILLS": "1",
		"BUN_JSC_useFTLJIT":                "0",
		"BUN_JSC_thresholdForOptimizeAfterWarmUp":     "30000",
		"BUN_JSC_thresholdForOptimizeAfterLongWarmUp": "30000",
		"BUN_JSC_thresholdForOptimizeSoon":            "30000",
	}, p.Env)
	require.JSONEq(t, `{
		"model": "rollout/m", "share": "disabled", "autoupdate": false, "snapshot": false,
		"permission": {"*": "allow", "question": "deny", "webfetch": "deny", "task": "deny", "skill": "deny"},
		"compaction": {"auto": false, "prune": false},
		"agent": {"title": {"disable": true}},
		"provider": {"rollout": {"npm": "@ai-sdk/openai-compatible", "name": "rollout",
			"options": {"baseURL": "http://127.0.0.1:7000/v1", "apiKey": "none", "headerTimeout": false, "chunkTimeout": false},
			"models": {"m": {"name": "m", "attachment": true, "modalities": {"input": ["text", "image"], "output": ["text"]}, "limit": {"context": 0, "output": 4096}}}}}
	}`, config)
}

func TestLaunchWithTheProjectsConfiguration(t *testing.T) {
	t.Parallel()
	_, b, a := newFake(t)
	job := testJob()
	job.ObeyProject, job.MaxOutput = true, 0
	_, err := a.Open(t.Context(), agent.Env{Sandbox: b}, job)
	require.NoError(t, err)
	require.NotContains(t, b.started[0].Env, "OPENCODE_DISABLE_PROJECT_CONFIG")

	var config struct {
		Permission map[string]string
		Provider   map[string]struct{ Models map[string]map[string]any }
	}
	require.NoError(t, json.Unmarshal([]byte(b.started[0].Env["OPENCODE_CONFIG_CONTENT"]), &config))
	require.NotContains(t, config.Permission, "skill")
	require.NotContains(t, config.Provider["rollout"].Models["m"], "limit")
}
