package dockerfile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/rolloutd/rolloutd/internal/driver/local"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/image"
)

// Builder builds images of Dockerfiles into a store. Images is required.
type Builder struct {
	Images *image.Store

	// Runner runs the commands of RUN; nil: a Dockerfile with a RUN is refused.
	Runner Runner

	// Pull adds an image that a FROM names and the store does not have; nil: it is refused.
	Pull func(ctx context.Context, name string) error

	// Network is what commands of RUN reach; nil: nothing.
	Network *Network

	// Limits of each RUN. The zero value: all CPUs, 4 GiB of memory with the files that it writes, 1,024 processes.
	CPU       float64
	MemoryMiB int
	PIDs      int
}

// Runner runs a step in a sandbox.
type Runner interface {
	RunStep(ctx context.Context, s local.Step) (status int, changes *local.Changes, err error)
}

// Network serves the connections of a RUN to its proxy.
type Network struct {
	Serve func(net.Listener)

	// Hosts are those that the proxy reaches. A RUN runs again where they are others: a command that fetches may end well
	// without the network, and leave something else.
	Hosts []string

	// Env are the variables by which programs find the proxy; they are not in the image.
	Env map[string]string
}

// Job describes a build.
type Job struct {
	// the build context
	Folder string

	// path of the Dockerfile below Folder; "": Dockerfile
	Dockerfile string

	// name of the image
	Name string

	// values for ARG
	Args map[string]string

	// takes the steps and the output of commands
	Output io.Writer

	// bounds the whole build; 0: one hour
	Timeout time.Duration
}

// defaultTimeout bounds a build without a timeout.
const defaultTimeout = time.Hour

// Build builds the last stage of a Dockerfile and adds it to the store. The error is a fault.Invalid with the line
// for a Dockerfile that is refused or a command that fails, and a fault.Timeout for one that takes too long.
func (b Builder) Build(ctx context.Context, j Job) (image.Image, error) {
	limit := cmp.Or(j.Timeout, defaultTimeout)

	ctx, cancel := context.WithTimeoutCause(ctx, limit, fault.New(fault.Timeout, "the build took longer than %s", limit))
	defer cancel()

	i, err := b.build(ctx, j)
	if err != nil && ctx.Err() != nil {
		return i, fault.Wrap(fault.Timeout, errors.Join(context.Cause(ctx), err), "build")
	}

	return i, err
}

func (b Builder) build(ctx context.Context, j Job) (added image.Image, err error) {
	if _, err := image.ParseName(j.Name); err != nil {
		return image.Image{}, err
	}

	root, err := os.OpenRoot(j.Folder)
	if err != nil {
		return image.Image{}, fault.Wrap(fault.NotFound, err, "build")
	}
	defer root.Close()

	name := filepath.ToSlash(cmp.Or(j.Dockerfile, "Dockerfile"))

	f, err := read(root, name)
	if err != nil {
		return image.Image{}, err
	}

	files, err := openContext(root, name)
	if err != nil {
		return image.Image{}, err
	}

	if j.Output == nil {
		j.Output = io.Discard
	}

	p := &plan{b: b, job: j, file: f, context: files, stages: make([]*stage, len(f.stages)), bases: map[string]*base{}}

	defer func() { err = errors.Join(err, p.close()) }()

	last, err := p.stage(ctx, len(f.stages)-1)
	if err != nil {
		return image.Image{}, err
	}

	if p.a, err = b.Images.Assemble(ctx); err != nil {
		return image.Image{}, err
	}

	layers, err := p.layers(ctx, last)
	if err != nil {
		return image.Image{}, err
	}

	config := v1.Config{Env: last.env, User: last.user, Entrypoint: last.entrypoint, Cmd: last.cmd}
	if last.workdir != "/" {
		config.WorkingDir = last.workdir
	}

	return p.a.Finish(config, layers, j.Name)
}

// layers returns the layers of a stage, and builds those that the store does not have.
func (p *plan) layers(ctx context.Context, s *stage) ([]string, error) {
	if s.built {
		return s.layers, nil
	}

	layers, err := p.below(ctx, s)
	if err != nil {
		return nil, err
	}

	for n, st := range s.steps {
		layer, known := p.a.Step(st.key)

		state := ""
		if known {
			state = " (unchanged)"
		}

		fmt.Fprintf(p.job.Output, "[%s %d/%d] %s%s\n", s.name, n+1, len(s.steps), st.text, state)

		if !known {
			if layer, err = st.build(ctx, p.a.View(layers)); err == nil {
				err = p.a.Remember(st.key, layer)
			}

			if err != nil {
				return nil, p.file.wrap(st.at, err)
			}
		}

		if layer != "" {
			layers = append(layers, layer)
		}
	}

	s.layers, s.built = layers, true

	return layers, nil
}

// below returns the layers below the steps of a stage.
func (p *plan) below(ctx context.Context, s *stage) ([]string, error) {
	switch {
	case s.parent != nil:
		layers, err := p.layers(ctx, s.parent)
		return append([]string{}, layers...), err
	case s.base != nil:
		return append([]string{}, s.base.use.Image.Layers...), nil
	default:
		return nil, nil
	}
}

// write adds the layer that a function writes.
func (p *plan) write(ctx context.Context, write func(io.Writer) error) (string, error) {
	r, w := io.Pipe()
	// ends when the layer was written, or the reader is closed
	go func() { _ = w.CloseWithError(write(w)) }()

	layer, err := p.a.Layer(ctx, r)
	_ = r.Close()

	return layer, err
}

// close releases the images and the store.
func (p *plan) close() error {
	var errs []error
	if p.a != nil {
		errs = append(errs, p.a.Close())
	}

	for _, b := range p.bases {
		errs = append(errs, b.use.Lock.Close())
	}

	return errors.Join(errs...)
}
