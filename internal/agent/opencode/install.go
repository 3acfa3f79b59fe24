package opencode

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/rolloutd/rolloutd/internal/agent"
	"github.com/rolloutd/rolloutd/internal/agent/opencode/binary"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// Folders of agents inside a sandbox: the mount of the host's folder, and the place of a copy if there is no mount.
const (
	mountedDir  = "/opt/rolloutd/agents/opencode"
	uploadedDir = "/tmp/.rolloutd/opencode"
)

// Install implements agent.Installer. It fetches a missing binary to this host, and uploads it if the
// sandbox has no mount.
func (a *Agent) Install(ctx context.Context, env agent.Env) (string, error) {
	b := env.Sandbox
	if waits, err := agent.Warm(ctx, b); err != nil || waits {
		return fmt.Sprintf("opencode %s, started ahead in a warm sandbox", a.binary.Version()), err
	}

	path, err := a.binary.Fetch(ctx)
	if err != nil {
		return "", err
	}

	dir, how := "", "mounted"
	if dir, err = a.locate(ctx, b); err != nil {
		return "", err
	}

	if dir == "" {
		dir, how = uploadedDir+"/"+a.binary.Version(), "uploaded"
		if err := upload(ctx, b, filepath.Dir(path), dir); err != nil {
			return "", err
		}
	}

	if err := stopPluginInstall(ctx, b, a.binary.Version()); err != nil {
		return "", err
	}

	return fmt.Sprintf("opencode %s, checksum verified, %s at %s/%s", a.binary.Version(), how, dir, binary.File), nil
}

// locate finds the version's folder inside the sandbox, or returns "".
func (a *Agent) locate(ctx context.Context, b agent.Sandbox) (string, error) {
	for _, parent := range []string{mountedDir, uploadedDir} {
		dir := parent + "/" + a.binary.Version()

		_, err := b.ReadFile(ctx, dir+"/"+binary.ModelsFile, 64)
		if err == nil {
			return dir, nil
		}

		if !fault.Is(err, fault.NotFound) {
			return "", fmt.Errorf("look for opencode in the sandbox: %w", err)
		}
	}

	return "", nil
}

// upload copies the folder. The catalog is last, because locate takes its presence as the mark of a complete folder.
func upload(ctx context.Context, b agent.Sandbox, from, to string) error {
	f, err := os.Open(filepath.Join(from, binary.File))
	if err != nil {
		return fmt.Errorf("upload opencode: %w", err)
	}
	// read only
	defer func() { _ = f.Close() }()

	if err := b.WriteFile(ctx, to+"/"+binary.File, f, 0o755); err != nil {
		return fmt.Errorf("upload opencode: %w", err)
	}

	if err := b.WriteFile(ctx, to+"/"+binary.ModelsFile, bytes.NewReader(binary.NoModels()), 0o644); err != nil {
		return fmt.Errorf("upload opencode: %w", err)
	}

	return nil
}

// stopPluginInstall writes a lock file that lists OpenCode's plugin package as installed. Otherwise
// OpenCode starts an npm install of 57 MB in the background, during which it ignores SIGTERM.
func stopPluginInstall(ctx context.Context, b agent.Sandbox, version string) error {
	lock := fmt.Sprintf(`{"packages":{"":{"dependencies":{"@opencode-ai/plugin":%q}}}}`+"\n", version)

	var out bytes.Buffer

	w := tar.NewWriter(&out)
	for _, h := range []tar.Header{
		{Name: "node_modules/", Typeflag: tar.TypeDir, Mode: 0o755},
		{Name: "package-lock.json", Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(lock))},
	} {
		if err := w.WriteHeader(&h); err != nil {
			return fmt.Errorf("plugin stub: %w", err)
		}

		if h.Size > 0 {
			if _, err := io.WriteString(w, lock); err != nil {
				return fmt.Errorf("plugin stub: %w", err)
			}
		}
	}

	if err := w.Close(); err != nil {
		return fmt.Errorf("plugin stub: %w", err)
	}

	if err := b.PutTar(ctx, rollout.Home+"/.config/opencode", &out); err != nil {
		return fmt.Errorf("plugin stub: %w", err)
	}

	return nil
}
