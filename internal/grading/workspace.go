package grading

import (
	"archive/tar"
	"bytes"
	"context"
	"io"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandbox"
	"github.com/rolloutd/rolloutd/internal/store"
)

// SaveHome puts the home of the agent's sandbox into the store, once. It kills every process of the sandbox
// first, so that the archive shows one moment.
func (g *Grader) SaveHome(ctx context.Context, t rollout.Target) error {
	return g.saveHome(ctx, t, false, nil)
}

// saveHome also saves further folders that the agent has changed. If the processes are to live, it only stops them.
func (g *Grader) saveHome(ctx context.Context, t rollout.Target, live bool, changed []string) error {
	key := store.AttemptKey(t.RolloutID, t.Attempt, store.Home)
	if done, err := g.Store.Exists(ctx, key); err != nil || done {
		return err
	}

	sb, release, err := g.Sandboxes.Attach(ctx, t.SandboxID())
	if err != nil {
		return err
	}
	defer release()

	if err = g.still(ctx, sb, t, live); err == nil {
		err = g.save(ctx, key, func() (io.ReadCloser, error) { return sb.GetHome(ctx, changed) })
	}

	return sb.OfMemory(ctx, err)
}

// SavePackages puts the Python packages that setup installed for the user into the store, once; where there
// are none, an empty archive. A run of RunSetup that was superseded may call it late: it must not replace
// the archive with what the agent has installed since.
func (g *Grader) SavePackages(ctx context.Context, sb *sandbox.Sandbox, t rollout.Target) error {
	key := store.AttemptKey(t.RolloutID, t.Attempt, store.Packages)
	if done, err := g.Store.Exists(ctx, key); err != nil || done {
		return err
	}

	err := g.save(ctx, key, func() (io.ReadCloser, error) { return sb.GetTar(ctx, rollout.Packages) })
	if fault.Is(err, fault.NotFound) {
		_, err = g.Store.Put(ctx, key, Folders())
	}

	return err
}

// save puts a tar of the sandbox into the store.
func (g *Grader) save(ctx context.Context, key string, open func() (io.ReadCloser, error)) error {
	content, err := open()
	if err != nil {
		return err
	}
	defer content.Close()

	_, err = g.Store.Put(ctx, key, content)

	return fault.Wrap(fault.KindOf(err), err, "save %s", path.Base(key))
}

// restore unpacks a blob of the attempt into the folder.
func (g *Grader) restore(ctx context.Context, sb *sandbox.Sandbox, t rollout.Target, blob, folder string) error {
	content, err := g.Store.Reader(ctx, store.AttemptKey(t.RolloutID, t.Attempt, blob))
	if err != nil {
		return err
	}
	defer content.Close()

	err = sb.PutTar(ctx, folder, content)

	return fault.Wrap(fault.KindOf(err), err, "restore %s", folder)
}

// removeAll removes whole trees. A link is removed itself, its target is not.
func removeAll(ctx context.Context, sb *sandbox.Sandbox, paths ...string) error {
	for _, p := range paths {
		if err := sb.Remove(ctx, p); err != nil {
			return err
		}
	}

	return nil
}

// tarOf packs files by their names. Scripts are executable.
func tarOf(files map[string]string) (io.Reader, error) {
	var buf bytes.Buffer

	w := tar.NewWriter(&buf)

	for _, name := range slices.Sorted(maps.Keys(files)) {
		content := files[name]

		mode := int64(0o644)
		if strings.HasPrefix(content, "#!") {
			mode = 0o755
		}

		err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: int64(len(content)), Mode: mode})
		if err == nil {
			_, err = io.WriteString(w, content)
		}

		if err != nil {
			return nil, fault.Wrap(fault.Invalid, err, "pack %q", name)
		}
	}

	return &buf, w.Close()
}

// links is a tar of symbolic links: name → target.
func links(targets map[string]string) io.Reader {
	var buf bytes.Buffer

	w := tar.NewWriter(&buf)
	for _, name := range slices.Sorted(maps.Keys(targets)) {
		// a buffer does not fail
		_ = w.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: targets[name], Mode: 0o777})
	}

	_ = w.Close()

	return &buf
}

// Folders is a tar of nothing but these folders of the home.
func Folders(paths ...string) io.Reader {
	var buf bytes.Buffer

	w := tar.NewWriter(&buf)

	for _, p := range paths {
		name := strings.TrimPrefix(p, rollout.Home+"/") + "/"
		// a buffer does not fail
		_ = w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: name, Mode: 0o755})
	}

	_ = w.Close()

	return &buf
}
