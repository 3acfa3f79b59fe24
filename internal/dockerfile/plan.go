package dockerfile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
	"github.com/moby/buildkit/frontend/dockerfile/shell"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/image"
)

// plan is a build. It plans each stage before it builds one: bases are found, variables replaced, keys computed.
type plan struct {
	b       Builder
	job     Job
	file    *file
	context *buildContext

	// by their number; nil: not needed yet
	stages []*stage

	// images by the name that the Dockerfile has for them
	bases map[string]*base
	a     *image.Assembly
}

// base is an image that is not built here. It is held until the plan is closed.
type base struct{ use *image.Use }

// stage is a stage of the Dockerfile: what its image has so far, and its steps.
type stage struct {
	// name for people
	name string

	// the stage or the image that it begins with; both nil: scratch
	parent *stage
	base   *base

	env, args     []string
	user, workdir string
	shell         []string

	// what a service of the image runs; ownCmd: the stage itself has a CMD
	entrypoint, cmd []string
	ownCmd          bool

	steps []step

	// digest of what the steps so far give
	key string

	layers []string
	built  bool
}

// step is an instruction that gives a layer; "": it changed nothing.
type step struct {
	text  string
	at    []parser.Range
	key   string
	build func(ctx context.Context, view *image.Use) (string, error)
}

// addStep adds a step with the key of all that it depends on, beside the steps before it.
func (s *stage) addStep(st step, parts ...string) {
	s.key = keyOf(append([]string{s.key}, parts...)...)
	st.key = s.key
	s.steps = append(s.steps, st)
}

// stage plans a stage and those that it begins with.
func (p *plan) stage(ctx context.Context, n int) (*stage, error) {
	if p.stages[n] != nil {
		return p.stages[n], nil
	}

	given := p.file.stages[n]
	s := &stage{name: given.Name, workdir: "/", shell: []string{"/bin/sh", "-c"}}

	if s.name == "" {
		s.name = strconv.Itoa(n)
	}

	if err := p.from(ctx, s, n, given); err != nil {
		return nil, p.file.wrap(given.Location, err)
	}

	p.stages[n] = s

	for _, c := range given.Commands {
		if err := p.instruction(ctx, s, n, c); err != nil {
			return nil, p.file.wrap(c.Location(), err)
		}
	}

	return s, nil
}

// from begins a stage with another stage, an image, or nothing.
func (p *plan) from(ctx context.Context, s *stage, n int, given instructions.Stage) error {
	name, err := p.baseName(given)
	if err != nil {
		return err
	}

	if name == "scratch" {
		s.key = keyOf("scratch")
		return nil
	}

	if before := p.stageNamed(name, n); before >= 0 {
		parent, err := p.stage(ctx, before)
		if err != nil {
			return err
		}

		s.fromStage(parent)

		return nil
	}

	b, err := p.image(ctx, name)
	if err != nil {
		return fault.Wrap(fault.KindOf(err), err, "FROM %s", name)
	}

	s.fromImage(b)

	return nil
}

// baseName returns what a FROM names, with its variables replaced, for the platform of this machine.
func (p *plan) baseName(given instructions.Stage) (string, error) {
	global, err := p.global()
	if err != nil {
		return "", err
	}

	expand := p.expander(global)

	name, err := expand(given.BaseName)
	if err != nil {
		return "", err
	}

	platform, err := expand(given.Platform)

	switch {
	case err != nil:
		return "", err
	case platform != "" && !ownPlatform(platform):
		return "", fault.New(fault.Invalid, "FROM --platform=%s: this machine is %s", platform, platformName())
	case name == "":
		return "", fault.New(fault.Invalid, "FROM %s: names no image", given.BaseName)
	}

	return name, nil
}

// fromStage begins s with all that a stage has.
func (s *stage) fromStage(parent *stage) {
	s.parent = parent
	s.env, s.user, s.workdir, s.key = slices.Clone(parent.env), parent.user, parent.workdir, parent.key
	s.shell, s.entrypoint, s.cmd = parent.shell, parent.entrypoint, parent.cmd
}

// fromImage begins s with an image and its configuration.
func (s *stage) fromImage(b *base) {
	i := b.use.Image

	s.base = b
	s.env, s.user, s.key = slices.Clone(i.Env), i.User, keyOf("image", i.ID)
	s.entrypoint, s.cmd = i.Entrypoint, i.Cmd

	if i.Workdir != "" {
		s.workdir = i.Workdir
	}

	// as BuildKit does, so that an ENV can add a folder to it
	if _, ok := lookup(s.env, "PATH"); !ok {
		s.env = append(s.env, "PATH="+rootPath)
	}
}

// stageNamed is the number of a stage before another; -1: there is none of that name.
func (p *plan) stageNamed(name string, before int) int {
	for n := before - 1; n >= 0; n-- {
		if strings.EqualFold(p.file.stages[n].Name, name) && name != "" {
			return n
		}
	}

	return -1
}

// image finds or pulls an image.
func (p *plan) image(ctx context.Context, name string) (*base, error) {
	if b := p.bases[name]; b != nil {
		return b, nil
	}

	use, err := p.b.Images.Use(ctx, name)
	if fault.Is(err, fault.NotFound) && p.b.Pull != nil {
		fmt.Fprintf(p.job.Output, "pull %s\n", name)

		if err = p.b.Pull(ctx, name); err == nil {
			use, err = p.b.Images.Use(ctx, name)
		}
	}

	if err != nil {
		return nil, err
	}

	p.bases[name] = &base{use}

	return p.bases[name], nil
}

func platformName() string { return "linux/" + runtime.GOARCH }

func ownPlatform(name string) bool {
	return name == platformName() || name == "linux" || name == "local" || strings.HasPrefix(name, platformName()+"/")
}

// platformArgs are the variables that a Dockerfile may use about the platform.
func platformArgs() []string {
	var all []string

	for _, of := range []string{"BUILD", "TARGET"} {
		all = append(all, of+"PLATFORM="+platformName(), of+"OS=linux", of+"ARCH="+runtime.GOARCH, of+"VARIANT=")
	}

	return all
}

// global returns the variables of ARG before the first FROM, and those of the platform.
func (p *plan) global() ([]string, error) {
	all := platformArgs()

	for _, arg := range p.file.global {
		for _, kv := range arg.Args {
			value, err := p.argument(kv, all)
			if err != nil {
				return nil, p.file.wrap(arg.Location(), err)
			}

			if value != nil {
				all = set(all, kv.Key, *value)
			}
		}
	}

	return all, nil
}

// argument is the value of an ARG: that of the build, or its default; nil: it has none.
func (p *plan) argument(kv instructions.KeyValuePairOptional, env []string) (*string, error) {
	if value, ok := p.job.Args[kv.Key]; ok {
		return &value, nil
	}

	if kv.Value == nil {
		return nil, nil //nolint:nilnil // no value, no error
	}

	value, err := p.expander(env)(*kv.Value)

	return &value, err
}

// expander replaces variables in a word.
func (p *plan) expander(env []string) instructions.SingleWordExpander {
	return func(word string) (string, error) {
		text, _, err := p.file.lex.ProcessWord(word, shell.EnvsFromSlice(env))
		return text, err
	}
}

// variables are those that instructions of a stage see: ENV over ARG.
func (s *stage) variables() []string {
	all := slices.Clone(s.args)

	for _, kv := range s.env {
		key, value, _ := strings.Cut(kv, "=")
		all = set(all, key, value)
	}

	return all
}

// set sets a variable in a list.
func set(env []string, key, value string) []string {
	for n, kv := range env {
		if name, _, _ := strings.Cut(kv, "="); name == key {
			env[n] = key + "=" + value
			return env
		}
	}

	return append(env, key+"="+value)
}

func lookup(env []string, key string) (string, bool) {
	for _, kv := range env {
		if name, value, _ := strings.Cut(kv, "="); name == key {
			return value, true
		}
	}

	return "", false
}

// commandLine is the program of a CMD or an ENTRYPOINT.
func (s *stage) commandLine(c instructions.ShellDependantCmdLine) []string {
	if c.PrependShell {
		return slices.Concat(s.shell, c.CmdLine)
	}

	return c.CmdLine
}

// instruction plans one instruction. Those that only describe a container, such as LABEL, have no meaning here.
func (p *plan) instruction(ctx context.Context, s *stage, n int, c instructions.Command) error {
	if err := p.expand(s, c); err != nil {
		return err
	}

	switch c := c.(type) {
	case *instructions.ArgCommand:
		return p.arg(s, c)
	case *instructions.EnvCommand:
		for _, kv := range c.Env {
			s.env = set(s.env, kv.Key, kv.Value)
		}
	case *instructions.ShellCommand:
		s.shell = c.Shell
	case *instructions.UserCommand:
		s.user = c.User
	case *instructions.CmdCommand:
		s.cmd, s.ownCmd = s.commandLine(c.ShellDependantCmdLine), true
	case *instructions.EntrypointCommand:
		s.entrypoint = s.commandLine(c.ShellDependantCmdLine)
		// that of the image below belongs to its entrypoint
		if !s.ownCmd {
			s.cmd = nil
		}
	case *instructions.WorkdirCommand:
		p.workdir(s, c)
	case *instructions.CopyCommand:
		from, err := p.source(ctx, n, c.From)
		if err != nil {
			return err
		}

		return p.copy(s, c, from, c.SourcesAndDest, copying{chown: c.Chown, chmod: c.Chmod})
	case *instructions.AddCommand:
		return p.copy(
			s, c, source{key: "context"}, c.SourcesAndDest, copying{chown: c.Chown, chmod: c.Chmod, unpack: true},
		)
	case *instructions.RunCommand:
		return p.run(ctx, s, n, c)
	}

	return nil
}

// expand replaces the variables in an instruction.
func (p *plan) expand(s *stage, c instructions.Command) error {
	env := s.variables()

	if e, ok := c.(instructions.SupportsSingleWordExpansion); ok {
		if _, isArg := c.(*instructions.ArgCommand); !isArg {
			if err := e.Expand(p.expander(env)); err != nil {
				return err
			}
		}
	}

	e, ok := c.(instructions.SupportsSingleWordExpansionRaw)
	if !ok {
		return nil
	}

	return e.ExpandRaw(func(word string) (string, error) {
		lex := shell.NewLex('\\')
		lex.SkipProcessQuotes = true
		text, _, err := lex.ProcessWord(word, shell.EnvsFromSlice(env))

		return text, err
	})
}

func (p *plan) arg(s *stage, c *instructions.ArgCommand) error {
	global, err := p.global()
	if err != nil {
		return err
	}

	for _, kv := range c.Args {
		value, err := p.argument(kv, s.variables())
		if err != nil {
			return err
		}

		if value == nil {
			if text, ok := lookup(global, kv.Key); ok {
				value = &text
			}
		}

		if value != nil {
			s.args = set(s.args, kv.Key, *value)
		}
	}

	return nil
}

// workdir makes a folder that the image does not have, which belongs to the stage's user.
func (p *plan) workdir(s *stage, c *instructions.WorkdirCommand) {
	if path.IsAbs(c.Path) {
		s.workdir = path.Clean(c.Path)
	} else {
		s.workdir = path.Join(s.workdir, c.Path)
	}

	folder, user := s.workdir, s.user

	s.addStep(
		step{
			text: "WORKDIR " + folder,
			at:   c.Location(),
			build: func(ctx context.Context, view *image.Use) (string, error) {
				l := newLayerWriter(io.Discard, view, p.a.Owners())

				at, err := l.place(clean(folder))
				if err != nil {
					return "", err
				}

				if exists, _, err := l.isFolder(at); err != nil || exists {
					return "", err
				}

				return p.write(ctx, func(w io.Writer) error {
					l := newLayerWriter(w, view, p.a.Owners())
					if err := (copying{chown: user}).setOwner(l); err != nil {
						return err
					}

					return errors.Join(l.parents(at), l.t.Close())
				})
			},
		},
		"workdir",
		folder,
		user,
	)
}

// source is where a COPY takes its files from.
type source struct {
	// digest of the content; that of the context is in the items
	key string

	stage *stage
	base  *base
}

// source finds the stage or image that --from names; "": the context.
func (p *plan) source(ctx context.Context, n int, from string) (source, error) {
	if from == "" {
		return source{key: "context"}, nil
	}

	before := p.stageNamed(from, n)
	if number, err := strconv.Atoi(from); err == nil && before < 0 {
		if number < 0 || number >= n {
			return source{}, fault.New(fault.Invalid, "--from=%s: must be a stage before this one", from)
		}

		before = number
	}

	if before >= 0 {
		s, err := p.stage(ctx, before)
		if err != nil {
			return source{}, err
		}

		return source{key: s.key, stage: s}, nil
	}

	b, err := p.image(ctx, from)
	if err != nil {
		return source{}, fault.Wrap(fault.KindOf(err), err, "--from=%s", from)
	}

	return source{key: keyOf("image", b.use.Image.ID), base: b}, nil
}

// tree returns the files of a source, and builds its stage if needed.
func (p *plan) tree(ctx context.Context, from source) (tree, error) {
	switch {
	case from.base != nil:
		return imageTree{from.base.use, p.a.Owners()}, nil
	case from.stage != nil:
		layers, err := p.layers(ctx, from.stage)
		return imageTree{p.a.View(layers), p.a.Owners()}, err
	default:
		return p.context, nil
	}
}

// copy plans a COPY or an ADD. What it takes from the context decides about its key; what it takes from a stage
// follows from the key of the stage.
func (p *plan) copy(
	s *stage,
	c instructions.Command,
	from source,
	files instructions.SourcesAndDest,
	cp copying,
) error {
	cp.texts, cp.dest = files.SourceContents, s.destination(files.DestPath)

	fromContext := from.stage == nil && from.base == nil
	if fromContext {
		var err error
		if cp.items, err = findAll(p.context, files.SourcePaths); err != nil {
			return err
		}
	}

	key, err := cp.key()
	if err != nil {
		return err
	}

	build := func(ctx context.Context, view *image.Use) (string, error) {
		if !fromContext {
			t, err := p.tree(ctx, from)
			if err != nil {
				return "", err
			}

			if cp.items, err = findAll(t, files.SourcePaths); err != nil {
				return "", err
			}
		}

		if len(cp.items)+len(cp.texts) == 0 {
			return "", nil
		}

		return p.write(ctx, func(w io.Writer) error { return cp.write(w, view, p.a.Owners()) })
	}

	s.addStep(
		step{text: textOf(c), at: c.Location(), build: build},
		append([]string{from.key, key}, files.SourcePaths...)...)

	return nil
}

// destination makes a path absolute, below the workdir. It ends with a slash if the path is one of a folder.
func (s *stage) destination(dest string) string {
	if path.IsAbs(dest) {
		return dest
	}

	folder := strings.HasSuffix(dest, "/") || dest == "." || strings.HasSuffix(dest, "/.")
	if dest = path.Join(s.workdir, dest); folder {
		dest += "/"
	}

	return dest
}

// textOf is an instruction as it is written, in one line.
func textOf(c instructions.Command) string {
	text := c.Name()
	if s, ok := c.(fmt.Stringer); ok {
		text = s.String()
	}

	text = strings.Join(strings.Fields(text), " ")
	if len(text) > 200 {
		text = text[:200] + "…"
	}

	return text
}
