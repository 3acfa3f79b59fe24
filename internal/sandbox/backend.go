package sandbox

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/rolloutd/rolloutd/internal/driver"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// Options configures a Backend; its zero value works.
type Options struct {
	// Defaults replaces zero fields of a rollout's spec; its own zero fields take the package's defaults
	// (see defaults.go).
	Defaults driver.Spec
	// Silence is for how long an exchange with a sandbox may make no progress. Proof is the time that the
	// sandbox then has to answer the simplest request before it is destroyed. 0: 45 s and 15 s.
	Silence, Proof time.Duration
	// Logger logs the creation and the end of sandboxes; nil: silent.
	Logger *slog.Logger
}

// Backend creates and finds the sandboxes of one provider.
type Backend struct {
	driver   driver.Driver
	defaults driver.Spec
	log      *slog.Logger
	tracer   trace.Tracer
	silence  time.Duration
	proof    time.Duration
	// client pools the control connections of all sandboxes; the host of a request's URL is the sandbox's id.
	client *http.Client
}

// New makes a Backend over d.
func New(d driver.Driver, o Options) *Backend {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}

	return &Backend{
		driver:   d,
		defaults: withDefaults(o.Defaults, packageDefaults()),
		log:      o.Logger,
		tracer:   otel.Tracer("github.com/rolloutd/rolloutd/internal/sandbox"),
		silence:  cmp.Or(o.Silence, silence),
		proof:    cmp.Or(o.Proof, proof),
		client:   &http.Client{Transport: controlTransport(d)},
	}
}

func controlTransport(d driver.Driver) *http.Transport {
	return &http.Transport{
		DialContext: func(ctx context.Context, _, addr string) (net.Conn, error) {
			id, _, err := net.SplitHostPort(addr)
			if err != nil {
				return nil, fault.Wrap(fault.Internal, err, "address %q", addr)
			}

			return d.Dial(ctx, id)
		},
		MaxIdleConnsPerHost: 4,
		// A worker meets thousands of sandboxes, so connections to dead ones must not accumulate. Agents on
		// the host wait for their model for much longer than this, and need no connection meanwhile: one
		// takes two goroutines and a file here and another goroutine in the sandbox.
		IdleConnTimeout:    5 * time.Second,
		DisableCompression: true,
		// Agents in the sandbox hold a connection at all times. The default is 4 KiB for each buffer;
		// bodies larger than the buffer bypass it.
		ReadBufferSize:  1 << 10,
		WriteBufferSize: 1 << 10,
	}
}

// Prepare fetches what a sandbox of this spec and its services need, such as their images, which may take minutes.
func (b *Backend) Prepare(ctx context.Context, s rollout.Sandbox) error {
	p, ok := b.driver.(driver.Preparer)
	if !ok {
		return nil
	}

	if err := p.Prepare(ctx, specOf(s, b.defaults)); err != nil {
		return contextual(ctx, fmt.Errorf("prepare sandbox: %w", err))
	}

	for _, service := range s.Services {
		if err := b.Prepare(ctx, service.Sandbox(s.Backend)); err != nil {
			return fmt.Errorf("service %q: %w", service.Name, err)
		}
	}

	return nil
}

// Create creates the sandbox id, or finds the living one of that id. It returns when the sandbox accepts requests.
func (b *Backend) Create(
	ctx context.Context,
	id string,
	s rollout.Sandbox,
	labels map[string]string,
) (*Sandbox, error) {
	spec := specOf(s, b.defaults)
	spec.Labels = labels

	return b.create(ctx, id, spec)
}

func (b *Backend) create(ctx context.Context, id string, spec driver.Spec) (_ *Sandbox, err error) {
	ctx, span := b.span(ctx, "sandbox.create", id)
	defer func() { endSpan(span, err) }()

	if err := checkID(id); err != nil {
		return nil, err
	}

	started := time.Now()

	if err := b.driver.Create(ctx, id, spec); err != nil {
		return nil, contextual(ctx, fmt.Errorf("create sandbox %q: %w", id, err))
	}

	b.log.DebugContext(ctx, "sandbox ready", "sandbox", id, "took", time.Since(started))

	return b.sandbox(id), nil
}

// Attach finds the living sandbox id; fault.SandboxLost: there is none.
func (b *Backend) Attach(ctx context.Context, id string) (*Sandbox, error) {
	if err := checkID(id); err != nil {
		return nil, err
	}

	s := b.sandbox(id)
	if _, err := s.Info(ctx); err != nil {
		return nil, fmt.Errorf("attach: %w", err)
	}

	return s, nil
}

// AttachFor is Attach by a renewal of the lease, which fails unless the sandbox lives.
func (b *Backend) AttachFor(ctx context.Context, id string, ttl time.Duration) (*Sandbox, error) {
	if err := checkID(id); err != nil {
		return nil, err
	}

	s := b.sandbox(id)
	if err := s.Renew(ctx, ttl); err != nil {
		return nil, fmt.Errorf("attach: %w", err)
	}

	return s, nil
}

// Destroy ends every process of the sandbox and frees its resources. It is a no-op for a sandbox that is gone.
func (b *Backend) Destroy(ctx context.Context, id string) (err error) {
	ctx, span := b.span(ctx, "sandbox.destroy", id)
	defer func() { endSpan(span, err) }()

	if err := checkID(id); err != nil {
		return err
	}

	if err := b.driver.Destroy(ctx, id); err != nil {
		return contextual(ctx, fmt.Errorf("destroy sandbox %q: %w", id, err))
	}

	b.log.DebugContext(ctx, "sandbox destroyed", "sandbox", id)

	return nil
}

// List returns the living sandboxes.
func (b *Backend) List(ctx context.Context) ([]driver.Info, error) {
	infos, err := b.driver.List(ctx)
	if err != nil {
		return nil, contextual(ctx, fmt.Errorf("list sandboxes: %w", err))
	}

	return infos, nil
}

// Inspect returns the sandbox's usage so far; -1: unknown to the driver.
func (b *Backend) Inspect(ctx context.Context, id string) (driver.Usage, error) {
	inspector, ok := b.driver.(driver.Inspector)
	if !ok {
		return driver.NoUsage(), nil
	}

	u, err := inspector.Inspect(ctx, id)
	if err != nil {
		return driver.Usage{}, contextual(ctx, fmt.Errorf("inspect sandbox %q: %w", id, err))
	}

	return u, nil
}

func (b *Backend) sandbox(id string) *Sandbox { return &Sandbox{id: id, backend: b} }

func (b *Backend) span(ctx context.Context, name, id string) (context.Context, trace.Span) {
	return b.tracer.Start(ctx, name, trace.WithAttributes(attribute.String("sandbox.id", id)))
}

func endSpan(span trace.Span, err error) {
	if err != nil {
		span.RecordError(err)
		span.SetStatus(codes.Error, string(fault.KindOf(err)))
	}

	span.End()
}

// checkID requires ids that are valid as a file name, a host name in a URL and a container name.
func checkID(id string) error {
	ok := len(id) >= 1 && len(id) <= 100 && id[0] != '.' && id[0] != '-' && id[0] != '_'
	for _, c := range []byte(id) {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		ok = ok && (letter || c == '.' || c == '_' || c == '-')
	}

	if !ok {
		return fault.Field("sandbox id",
			"%q must be 1 to 100 letters, digits, '.', '_' or '-', the first a letter or digit",
			id)
	}

	return nil
}
