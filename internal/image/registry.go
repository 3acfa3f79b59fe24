package image

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// Registries configures access to registries. Credentials come from the Docker configuration
// (~/.docker/config.json, $DOCKER_CONFIG).
type Registries struct {
	// Mirrors are tried before a registry, in their order, by its name (docker.io).
	Mirrors map[string][]string
	// Insecure are registries that are reached by plain HTTP, or by TLS without a check of the certificate.
	Insecure []string
	// Stall is how long a registry may send nothing; default 60 s. A registry that stalled is not called
	// again during a pull.
	Stall time.Duration
	// Pull bounds a pull as a whole; default 30 min.
	Pull time.Duration
}

const (
	defaultStall = time.Minute
	defaultPull  = 30 * time.Minute
)

// Pull adds the image of a registry under its name. It pulls an image again that the store has under that
// name: a tag may have moved.
func (s *Store) Pull(ctx context.Context, image string) (Image, error) {
	ref, err := parse(image)
	if err != nil {
		return Image{}, err
	}

	limit := cmp.Or(s.o.Registries.Pull, defaultPull)

	ctx, cancel := context.WithTimeoutCause(
		ctx,
		limit,
		fault.New(fault.Unavailable, "image %s: was not pulled within %s", ref.Name(), limit),
	)
	defer cancel()

	added, err := s.pull(ctx, ref)
	if err != nil && ctx.Err() != nil {
		return added, fault.Wrap(fault.Unavailable, errors.Join(context.Cause(ctx), err), "pull")
	}

	return added, err
}

func (s *Store) pull(ctx context.Context, ref name.Reference) (Image, error) {
	return s.adding(ctx, func(temp string) (Image, error) {
		var errs []error

		for _, from := range s.sources(ref) {
			added, err := s.pullFrom(ctx, from, ref, temp)
			if err == nil {
				return added, nil
			}

			errs = append(errs, err)
		}

		return Image{}, joinErrors(errs)
	})
}

// pullFrom pulls the image from one source and adds it under the names of ref.
func (s *Store) pullFrom(ctx context.Context, from, ref name.Reference, temp string) (Image, error) {
	reading, stop := context.WithCancel(ctx)
	defer stop()

	img, digest, err := s.fetch(reading, from)
	if err != nil {
		return Image{}, err
	}

	return s.addImage(ctx, stop, img, temp, ref.Name(), ref.Context().Digest(digest.String()).Name())
}

// Check fetches the manifest of an image from the registry and checks that the image exists and can run on
// this machine.
func (s *Store) Check(ctx context.Context, image string) error {
	ref, err := parse(image)
	if err != nil {
		return err
	}

	var errs []error

	for _, from := range s.sources(ref) {
		img, _, err := s.fetch(ctx, from)
		if err == nil {
			_, _, err = s.describe(img)
		}

		if err == nil {
			return nil
		}

		errs = append(errs, err)
	}

	return joinErrors(errs)
}

// joinErrors joins the errors of all sources. The kind is that of the last source, the registry itself.
func joinErrors(errs []error) error {
	if len(errs) == 1 {
		return errs[0]
	}

	return fault.Wrap(fault.KindOf(errs[len(errs)-1]), errors.Join(errs...), "image: from %d sources", len(errs))
}

// sources lists the places from which an image can be pulled: the mirrors of its registry, then the registry.
func (s *Store) sources(ref name.Reference) []name.Reference {
	var all []name.Reference

	sep := ":"
	if _, ok := ref.(name.Digest); ok {
		sep = "@"
	}

	for _, host := range append(append([]string{}, s.o.Registries.Mirrors[registryOf(ref)]...), ref.Context().RegistryStr()) {
		var options []name.Option
		if s.insecure(host) {
			options = append(options, name.Insecure)
		}

		if from, err := name.ParseReference(
			host+"/"+ref.Context().RepositoryStr()+sep+ref.Identifier(),
			options...); err == nil {
			all = append(all, from)
		}
	}

	return all
}

func (s *Store) insecure(host string) bool {
	for _, h := range s.o.Registries.Insecure {
		if h == host || h == "docker.io" && host == name.DefaultRegistry {
			return true
		}
	}

	return false
}

// fetch reads the manifest and returns the image for this machine, with the digest that the registry has for the name.
func (s *Store) fetch(ctx context.Context, ref name.Reference) (v1.Image, v1.Hash, error) {
	d, err := remote.Get(ref, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain),
		remote.WithTransport(s.transport(ref.Context().RegistryStr())), remote.WithPlatform(platform()))
	if err != nil {
		return nil, v1.Hash{}, fetchError(ref, err)
	}

	i, err := imageOf(d)
	if err == nil {
		err = checkConfig(i)
	}

	return i, d.Digest, fetchError(ref, err)
}

func imageOf(d *remote.Descriptor) (v1.Image, error) {
	if !d.MediaType.IsIndex() {
		return d.Image()
	}

	index, err := d.ImageIndex()
	if err != nil {
		return nil, err
	}

	return pick(index, 0)
}

// checkConfig refuses an image whose configuration would not fit into memory.
func checkConfig(i v1.Image) error {
	m, err := i.Manifest()
	if err == nil && m.Config.Size > maxDocument {
		err = fault.New(fault.Invalid, "image: its configuration must have at most %d bytes, got %d",
			maxDocument, m.Config.Size)
	}

	return err
}

func fetchError(ref name.Reference, err error) error {
	if err == nil {
		return nil
	}

	err = registryError(err)

	kind := fault.KindOf(err)
	if kind == fault.Internal {
		kind = fault.Invalid
	}

	return fault.Wrap(kind, err, "image %s", ref.Name())
}

// registryError wraps an error of a registry in its kind: unavailable for a registry that does not answer,
// invalid for an answer that is not an image.
func registryError(err error) error {
	var (
		answer  *transport.Error
		network net.Error
	)
	switch {
	case err == nil || fault.KindOf(err) != fault.Internal:
		return err
	case errors.As(err, &answer):
		switch {
		case answer.StatusCode == http.StatusNotFound,
			answer.StatusCode == http.StatusUnauthorized,
			answer.StatusCode == http.StatusForbidden:
			return fault.Wrap(fault.Invalid, err,
				"the registry does not have it, or asks for credentials (docker login)")
		case answer.StatusCode == http.StatusTooManyRequests || answer.StatusCode >= 500:
			return fault.Wrap(fault.Unavailable, err, "the registry is busy or broken")
		}
	case errors.As(err, &network),
		errors.Is(err, context.DeadlineExceeded),
		errors.Is(err, context.Canceled),
		errors.Is(err, io.ErrUnexpectedEOF):
		return fault.Wrap(fault.Unavailable, err, "the registry does not answer")
	}

	return err
}

// transport returns the transport for one registry.
func (s *Store) transport(host string) http.RoundTripper {
	base, ok := remote.DefaultTransport.(*http.Transport)
	if !ok {
		return remote.DefaultTransport
	}

	t := base.Clone()
	stall := cmp.Or(s.o.Registries.Stall, defaultStall)

	t.ResponseHeaderTimeout = stall
	if s.insecure(host) {
		//nolint:gosec // the operator named this registry as insecure
		t.TLSClientConfig = &tls.Config{InsecureSkipVerify: true}
	}

	return &patientTransport{base: t, stall: stall}
}

// patientTransport bounds how long a registry may send nothing, and how much it may send as a document.
type patientTransport struct {
	base  http.RoundTripper
	stall time.Duration

	// the registry stalled once: each retry of the client would wait as long again
	silent atomic.Bool
}

func (p *patientTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	silent := fault.New(fault.Unavailable, "the registry sent nothing for %s", p.stall)
	if p.silent.Load() {
		return nil, silent
	}

	ctx, cancel := context.WithCancelCause(req.Context())

	res, err := p.base.RoundTrip(req.WithContext(ctx))
	if err != nil {
		cancel(nil)

		var network net.Error
		if errors.As(err, &network) && network.Timeout() && req.Context().Err() == nil {
			p.silent.Store(true)
			return nil, silent
		}

		return nil, err
	}

	b := &patientBody{body: res.Body, stall: p.stall, cancel: cancel, ctx: ctx, left: -1}
	b.timer = time.AfterFunc(p.stall, func() { cancel(silent) })
	// it runs during a read
	b.timer.Stop()

	if !strings.Contains(req.URL.Path, "/blobs/") {
		b.left = maxDocument
	}

	res.Body = b

	return res, nil
}

type patientBody struct {
	body   io.ReadCloser
	stall  time.Duration
	timer  *time.Timer
	cancel context.CancelCauseFunc
	ctx    context.Context //nolint:containedctx // of the request whose reply this is

	// -1: no bound
	left int64
}

func (b *patientBody) Read(p []byte) (int, error) {
	b.timer.Reset(b.stall)
	n, err := b.body.Read(p)
	b.timer.Stop()

	if b.left >= 0 {
		if b.left -= int64(n); b.left < 0 {
			return n, fault.New(fault.Invalid, "image: the registry sent a document of more than %d bytes", maxDocument)
		}
	}

	if err != nil && !errors.Is(err, io.EOF) && context.Cause(b.ctx) != nil {
		err = context.Cause(b.ctx)
	}

	return n, err
}

func (b *patientBody) Close() error {
	b.timer.Stop()
	b.cancel(nil)

	return b.body.Close()
}
