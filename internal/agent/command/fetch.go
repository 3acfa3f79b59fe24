package command

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/filelock"
)

// completeFile is written last into an agent's folder, so that it tells a whole one.
const completeFile = ".complete"

// unfinished names folders that are being filled.
const unfinished = ".fetch-"

// source is what the folder is made of, for people and for its name.
func (a *Agent) source() string {
	if a.Folder != "" {
		return "folder " + a.Folder
	}
	return "package " + a.Package
}

// folder is the agent's folder below AgentsDir. Another version or integrity has another one.
func (a *Agent) folder() string {
	sum := sha256.Sum256([]byte(a.source() + "\n" + a.integrity()))
	return a.Name + "/" + hex.EncodeToString(sum[:8])
}

func (a *Agent) integrity() string {
	return cmp.Or(a.Integrity[platform(a.o.Arch)], a.Integrity["any"])
}

// Fetch makes sure that the agent's folder is on this host, and returns its path. Processes that want it at once wait for the first.
func (a *Agent) Fetch(ctx context.Context) (string, error) {
	dir := filepath.Join(a.o.AgentsDir, filepath.FromSlash(a.folder()))
	if isComplete(dir) {
		return dir, nil
	}
	parent := filepath.Dir(dir)
	if err := errors.Join(os.MkdirAll(parent, 0o755), os.Chmod(parent, 0o755)); err != nil { // whatever the umask
		return "", fmt.Errorf("agents folder: %w", err)
	}
	lock, err := filelock.Wait(ctx, filepath.Join(parent, ".lock"))
	if err != nil {
		return "", fault.Wrap(fault.Timeout, err, "fetch %s", a.Name)
	}
	defer func() { _ = lock.Release() }() // closing an unwritten file: nothing to lose
	if isComplete(dir) {                  // another process was first
		return dir, nil
	}
	if err := a.fill(ctx, dir); err != nil {
		return "", fault.Wrap(fault.KindOf(err), err, "fetch %s", a.Name)
	}
	return dir, nil
}

func isComplete(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, completeFile))
	return err == nil
}

// fill makes the folder beside its place and moves it there. The lock is held.
func (a *Agent) fill(ctx context.Context, dir string) error {
	left, err := filepath.Glob(filepath.Join(filepath.Dir(dir), unfinished+"*")) // of processes that were killed
	if err != nil {
		return err
	}
	for _, old := range append(left, dir) {
		if err := os.RemoveAll(old); err != nil {
			return err
		}
	}
	tmp, err := os.MkdirTemp(filepath.Dir(dir), unfinished)
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(tmp) }() // gone already when all went well
	a.o.Logger.InfoContext(ctx, "fetching an agent", "agent", a.Name, "from", a.source())
	if a.Folder != "" {
		err = os.CopyFS(tmp, os.DirFS(a.Folder))
	} else {
		err = a.npmInstall(ctx, tmp)
	}
	if err != nil {
		return err
	}
	if err := makeReadable(tmp); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(tmp, completeFile), []byte("{}\n"), 0o644); err != nil {
		return err
	}
	if err := os.Chmod(filepath.Join(tmp, completeFile), 0o644); err != nil {
		return err
	}
	return os.Rename(tmp, dir)
}

// npmInstall installs the package into dir and checks it. npm checks the registry's integrity hash of each package.
func (a *Agent) npmInstall(ctx context.Context, dir string) error {
	dir, err := filepath.EvalSymlinks(dir) // npm's lock file names packages by their place from the real path
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, a.o.NPM, "install", "--prefix", dir, "--ignore-scripts", "--omit=optional", "--omit=dev",
		"--no-audit", "--no-fund", "--no-save", "--loglevel", "error", a.Package)
	cmd.Dir = dir
	cmd.WaitDelay = 5 * time.Second // npm's children may hold the pipe
	out, err := cmd.CombinedOutput()
	if errors.Is(err, exec.ErrNotFound) {
		return fault.Wrap(fault.NotFound, err, "npm is needed to install %s; install Node.js with npm", a.Package)
	}
	if err != nil {
		return fault.Wrap(fault.Unavailable, err, "`npm install %s` failed; is the npm registry reachable from here? npm said: %s",
			a.Package, bytes.TrimSpace(out[max(0, len(out)-1000):]))
	}
	return a.verify(dir)
}

// verify holds the integrity hash of what was installed against the pinned one.
func (a *Agent) verify(dir string) error {
	want := a.integrity()
	if want == "" {
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
	if got := lock.Packages["node_modules/"+name].Integrity; got != want {
		return fault.New(fault.Conflict, "%s is not the pinned package: integrity %q, want %q", a.Package, got, want)
	}
	return nil
}

// makeReadable lets every user read what is below dir, whatever the umask: sandboxes run as other users.
func makeReadable(dir string) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Type()&fs.ModeSymlink != 0 {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		mode := info.Mode().Perm() | 0o444
		if d.IsDir() || mode&0o100 != 0 {
			mode |= 0o111
		}
		return os.Chmod(path, mode)
	})
}

// withoutComplete hides the complete file at the root of a folder.
type withoutComplete struct{ fs.FS }

// ReadDir implements fs.ReadDirFS.
func (f withoutComplete) ReadDir(name string) ([]fs.DirEntry, error) {
	all, err := fs.ReadDir(f.FS, name)
	kept := all[:0]
	for _, e := range all {
		if path.Join(name, e.Name()) != completeFile {
			kept = append(kept, e)
		}
	}
	return kept, err
}
