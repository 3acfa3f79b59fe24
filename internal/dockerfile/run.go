package dockerfile

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
	"golang.org/x/sys/unix"

	"github.com/rolloutd/rolloutd/internal/driver/imageconfig"
	"github.com/rolloutd/rolloutd/internal/driver/local"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/image"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

// Defaults of a RUN.
const (
	runMemoryMiB = 4096
	runPIDs      = 1024
)

// rootPath is the PATH of a RUN in an image that sets none.
const rootPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// scriptFile is the file of a RUN with a script. It is in the image only while the RUN runs.
const scriptFile = ".rolloutd-run"

// running is a RUN with its variables replaced.
type running struct {
	argv []string

	// text of a script with an interpreter of its own; "": there is none
	script string

	env           []string
	user, workdir string
	network       bool

	// folders that begin empty and whose content is dropped
	tmpfs []string

	// files that are there only for this RUN
	binds []bind
}

// bind is a --mount=type=bind.
type bind struct {
	from source
	copying
	path string
}

// run plans a RUN.
func (p *plan) run(ctx context.Context, s *stage, n int, c *instructions.RunCommand) error {
	if p.b.Runner == nil {
		return fault.New(
			fault.Unavailable, "RUN needs root on this machine, or buildctl or docker with a daemon that answers",
		)
	}

	r := running{
		env: s.variables(), user: s.user, workdir: s.workdir,
		network: p.b.Network != nil && instructions.GetNetwork(c) != instructions.NetworkNone,
	}

	var err error
	if r.argv, r.script, err = commandOf(s, c); err != nil {
		return err
	}

	parts := slices.Concat([]string{"run", r.user, r.workdir, r.script}, r.argv, []string{"env"}, r.env)
	if r.network {
		parts = append(append(parts, "network"), p.b.Network.Hosts...)
	}

	for _, m := range instructions.GetMounts(c) {
		key, err := p.mount(ctx, s, n, m, &r)
		if err != nil {
			return err
		}

		parts = append(parts, key)
	}

	s.addStep(
		step{text: textOf(c), at: c.Location(), build: func(ctx context.Context, view *image.Use) (string, error) {
			return p.execute(ctx, r, view)
		}},
		parts...)

	return nil
}

// commandOf returns the program of a RUN, or its script if that names its interpreter.
func commandOf(s *stage, c *instructions.RunCommand) (argv []string, script string, err error) {
	argv = c.CmdLine

	if len(c.Files) > 0 {
		if len(argv) != 1 || !c.PrependShell {
			return nil, "", fault.New(fault.Invalid, "RUN with a here-document must be a shell command")
		}

		doc, err := parser.ParseHeredoc(argv[0])

		switch {
		case err == nil && doc != nil && strings.HasPrefix(c.Files[0].Data, "#!"):
			return []string{"/" + scriptFile}, content(c.Files[0]), nil
		case err == nil && doc != nil:
			argv = []string{content(c.Files[0])}
		default:
			text := argv[0]
			for _, f := range c.Files {
				text += "\n" + f.Data + f.Name
			}

			argv = []string{text}
		}
	}

	if c.PrependShell {
		argv = append(slices.Clone(s.shell), strings.Join(argv, " "))
	}

	if len(argv) == 0 || argv[0] == "" {
		return nil, "", fault.New(fault.Invalid, "RUN names no command")
	}

	return argv, "", nil
}

// content is the text of a here-document.
func content(f instructions.ShellInlineFile) string {
	if f.Chomp {
		return parser.ChompHeredocContent(f.Data)
	}

	return f.Data
}

// mount plans a mount, and returns its key. A cache is empty: a build must not depend on what is in it.
func (p *plan) mount(ctx context.Context, s *stage, n int, m *instructions.Mount, r *running) (string, error) {
	target := m.Target
	if !path.IsAbs(target) {
		target = path.Join(s.workdir, target)
	}

	if target = path.Clean(target); target == "/" && m.Type != instructions.MountTypeBind {
		return "", fault.New(fault.Invalid, "RUN --mount=type=%s: needs a target", m.Type)
	}

	if m.Type != instructions.MountTypeBind {
		r.tmpfs = append(r.tmpfs, target)
		return keyOf("tmpfs", target), nil
	}

	from, err := p.source(ctx, n, m.From)
	if err != nil {
		return "", err
	}

	b := bind{from: from, path: cmp.Or(m.Source, "."), copying: copying{dest: target}}

	key := from.key

	if from.stage == nil && from.base == nil {
		if b.items, err = find(p.context, b.path); err != nil {
			return "", err
		}

		if key, err = digest(b.items); err != nil {
			return "", err
		}
	}

	r.binds = append(r.binds, b)

	return keyOf("bind", key, b.path, target), nil
}

// execute runs the command over an image, and adds what it changed.
func (p *plan) execute(ctx context.Context, r running, view *image.Use) (string, error) {
	user, err := imageconfig.AccountOf(view, r.user)
	if err != nil {
		return "", fault.Wrap(fault.Invalid, err, "USER %s", r.user)
	}

	below, err := p.temporary(ctx, r, view)
	if err != nil {
		return "", err
	}

	out := &output{w: p.job.Output}
	step := local.Step{
		Layers: below.Layers, Argv: r.argv, Env: p.env(r, view, user), Dir: r.workdir, User: user, Tmpfs: r.tmpfs,
		CPU: cmp.Or(p.b.CPU, float64(runtime.NumCPU())), MemoryMiB: cmp.Or(p.b.MemoryMiB, runMemoryMiB),
		PIDs: cmp.Or(p.b.PIDs, runPIDs), DiskMiB: cmp.Or(p.b.MemoryMiB, runMemoryMiB), Output: out,
	}
	step.Path, _ = lookup(step.Env, "PATH")

	if r.network {
		step.Network = p.b.Network.Serve
	}

	status, changes, err := p.b.Runner.RunStep(ctx, step)
	if err != nil {
		return "", fault.Wrap(fault.KindOf(err), err, "RUN\n%s", out.lastOutput())
	}
	defer changes.Close()

	if status != 0 {
		return "", fault.New(fault.Invalid, "RUN: exit status %d%s\n%s", status, p.hint(r), out.lastOutput())
	}

	// what is written to a mount is forgotten with it
	mounts := slices.Concat([]string{"proc", "dev", "etc/hosts"}, r.targets(view))

	return p.write(ctx, func(w io.Writer) error { return writeChanges(w, changes, mounts) })
}

// targets are the paths in the image at which files are that are there only for this RUN.
func (r running) targets(view *image.Use) []string {
	var all []string

	for _, b := range r.binds {
		if at, err := view.Resolve(clean(b.dest)); err == nil && at != "." {
			all = append(all, at)
		}
	}

	return all
}

// hint says what a failed command may have lacked.
func (p *plan) hint(r running) string {
	if r.network {
		return ""
	}

	return " (it reaches no host: see sandbox.network.max and --network)"
}

// temporary returns the image with the files that are there only for this RUN.
func (p *plan) temporary(ctx context.Context, r running, view *image.Use) (*image.Use, error) {
	layers := slices.Clone(view.Image.Layers)

	for _, b := range r.binds {
		t, err := p.tree(ctx, b.from)
		if err != nil {
			return nil, err
		}

		if b.items, err = find(t, b.path); err != nil {
			return nil, err
		}

		over := p.a.View(layers)

		layer, err := p.write(ctx, func(w io.Writer) error { return b.write(w, over, p.a.Owners()) })
		if err != nil {
			return nil, fault.Wrap(fault.KindOf(err), err, "RUN --mount=type=bind")
		}

		layers = append(layers, layer)
	}

	if r.script != "" {
		layer, err := p.write(ctx, func(w io.Writer) error {
			l := newLayerWriter(w, view, p.a.Owners())
			return errors.Join(l.text(scriptFile, r.script, 0o755), l.t.Close())
		})
		if err != nil {
			return nil, err
		}

		layers = append(layers, layer)
	}

	return p.a.View(layers), nil
}

// env is the environment of the command.
func (p *plan) env(r running, view *image.Use, user wire.Account) []string {
	env := slices.Clone(r.env)
	if _, ok := lookup(env, "PATH"); !ok {
		env = append(env, "PATH="+rootPath)
	}

	if _, ok := lookup(env, "HOME"); !ok {
		env = append(env, "HOME="+imageconfig.HomeOf(view, user.UID))
	}

	if r.network {
		for _, key := range slices.Sorted(maps.Keys(p.b.Network.Env)) {
			if _, ok := lookup(env, key); !ok {
				env = append(env, key+"="+p.b.Network.Env[key])
			}
		}
	}

	return env
}

// writeChanges writes what a step has changed outside of its mounts as the tar of a layer.
func writeChanges(w io.Writer, c *local.Changes, mounts []string) error {
	t := tar.NewWriter(w)
	linked := map[uint64]string{}

	err := fs.WalkDir(c.Root.FS(), ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || name == "." {
			return err
		}

		if slices.Contains(mounts, name) {
			if e.IsDir() {
				return fs.SkipDir
			}

			return nil
		}

		info, err := e.Info()
		if err != nil {
			return err
		}

		return writeChange(t, c, name, info, linked)
	})

	return errors.Join(err, t.Close())
}

// writeChange writes one entry. linked has the names of files with several.
func writeChange(t *tar.Writer, c *local.Changes, name string, info fs.FileInfo, linked map[uint64]string) error {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fmt.Errorf("%s has no owner", name)
	}

	h := &tar.Header{
		Name: name, Mode: modeOf(info), ModTime: info.ModTime(), Format: tar.FormatPAX,
		Uid: int(st.Uid) - c.Base, Gid: int(st.Gid) - c.Base,
	}

	switch mode := info.Mode(); {
	case mode&fs.ModeCharDevice != 0:
		// a whiteout: a sandbox makes no device
		h = &tar.Header{Typeflag: tar.TypeReg, Name: path.Join(path.Dir(name), ".wh."+path.Base(name))}
	case mode.IsDir():
		h.Typeflag = tar.TypeDir
		if err := t.WriteHeader(h); err != nil {
			return err
		}

		return writeOpaque(t, c, name)
	case mode&fs.ModeSymlink != 0:
		target, err := c.Root.Readlink(name)
		if err != nil {
			return err
		}

		h.Typeflag, h.Linkname = tar.TypeSymlink, target
	case mode.IsRegular() && st.Nlink > 1 && linked[st.Ino] != "":
		h.Typeflag, h.Linkname = tar.TypeLink, linked[st.Ino]
	case mode.IsRegular():
		linked[st.Ino] = name

		return writeFile(t, c, h, info)
	default:
		// FIFOs and sockets are in no layer
		return nil
	}

	return t.WriteHeader(h)
}

func writeFile(t *tar.Writer, c *local.Changes, h *tar.Header, info fs.FileInfo) error {
	h.Typeflag, h.Size = tar.TypeReg, info.Size()

	f, err := c.Root.Open(h.Name)
	if err != nil {
		return err
	}
	defer f.Close()

	if err := t.WriteHeader(h); err != nil {
		return err
	}

	_, err = io.CopyN(t, f, h.Size)

	return err
}

// writeOpaque marks a folder that hides the one below it.
func writeOpaque(t *tar.Writer, c *local.Changes, name string) error {
	f, err := c.Root.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()

	value := make([]byte, 8)
	if n, err := unix.Fgetxattr(int(f.Fd()), "trusted.overlay.opaque", value); err != nil || string(value[:n]) != "y" {
		return nil //nolint:nilerr // it is not marked
	}

	return t.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: path.Join(name, ".wh..wh..opq")})
}

// Bounds of a command's output.
const (
	maxOutput = 16 << 20
	maxEnd    = 4 << 10
)

// output passes on the output of a command, up to maxOutput, and keeps its end.
type output struct {
	w    io.Writer
	n    int
	last bytes.Buffer
}

// Write implements io.Writer.
func (o *output) Write(p []byte) (int, error) {
	if o.n < maxOutput {
		o.n += len(p)
		// a reader that is gone does not end the build
		_, _ = o.w.Write(p)
	}

	o.last.Write(p)

	if over := o.last.Len() - 2*maxEnd; over > 0 {
		o.last.Next(o.last.Len() - maxEnd)
	}

	return len(p), nil
}

// lastOutput is the last output.
func (o *output) lastOutput() string {
	data := o.last.Bytes()

	return strings.TrimSpace(strings.ToValidUTF8(string(data[max(0, len(data)-maxEnd):]), "?"))
}
