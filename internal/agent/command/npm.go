package command

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// npmInstall installs the package into dir and checks it. npm checks the registry's integrity hash of each package.
func (a *Agent) npmInstall(ctx context.Context, dir string) error {
	// npm's lock file has package paths relative to the real path
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return err
	}

	cmd := exec.CommandContext(ctx, a.o.NPM, "install", "--prefix", dir, "--ignore-scripts", "--omit=optional",
		"--omit=dev", "--no-audit", "--no-fund", "--no-save", "--loglevel", "error", a.Package)
	cmd.Dir = dir
	// npm's children may hold the pipe
	cmd.WaitDelay = 5 * time.Second

	out, err := cmd.CombinedOutput()
	if errors.Is(err, exec.ErrNotFound) {
		return fault.Wrap(fault.NotFound, err, "npm is needed to install %s; install Node.js with npm", a.Package)
	}

	if err != nil {
		return fault.Wrap(fault.Unavailable, err,
			"`npm install %s` failed; is the npm registry reachable from here? npm said: %s",
			a.Package, bytes.TrimSpace(out[max(0, len(out)-1000):]))
	}

	return a.verify(dir)
}

// verify compares the integrity hash of the installed package with the pinned one.
func (a *Agent) verify(dir string) error {
	pinned := a.integrity()
	if pinned == "" {
		return nil
	}

	text, err := os.ReadFile(filepath.Join(dir, "node_modules", ".package-lock.json"))
	if err != nil {
		return fault.Wrap(fault.Internal, err, "npm left no lock file")
	}

	var lock struct {
		Packages map[string]struct{ Integrity string }
	}
	if err := json.Unmarshal(text, &lock); err != nil {
		return fault.Wrap(fault.Internal, err, "npm's lock file")
	}

	name := a.Package[:strings.LastIndex(a.Package, "@")]
	if got := lock.Packages["node_modules/"+name].Integrity; got != pinned {
		return fault.New(fault.Conflict, "%s is not the pinned package: its integrity must be %q, got %q",
			a.Package, pinned, got)
	}

	return nil
}
