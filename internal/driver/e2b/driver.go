package e2b

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/rolloutd/rolloutd/internal/driver"
	"github.com/rolloutd/rolloutd/internal/driver/seccomp"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/network/lostconn"
)

// Options configures New. Dir, SandboxdPath and Key are required.
type Options struct {
	// Dir holds the name of this owner, and locks; it is created if missing and must be private to its owner.
	Dir string
	// SandboxdPath is the static sandboxd binary.
	SandboxdPath string
	// Key is the API key. It does not leave this process.
	Key string
	// Template is the default template of sandboxes; "": each task must name one.
	Template string
	// Domain is the service's domain; "": e2b.app.
	Domain string
	// APIURL and SandboxURL replace the addresses derived from Domain.
	APIURL, SandboxURL string
	// CreateRate bounds the sandboxes that this host creates per second; 0: 1.
	CreateRate float64
	// Logger logs machines that the driver ends by itself; nil: silent.
	Logger *slog.Logger
}

// Driver creates sandboxes in one account. It is safe for concurrent use.
type Driver struct {
	o        Options
	owner    string
	api      *APIClient
	http     *http.Client
	sandboxd program
	filter   []byte
	log      *slog.Logger

	mu sync.Mutex

	// by the sandbox's id; others are looked up
	byID map[string]machine
}

var (
	_ driver.Driver    = (*Driver)(nil)
	_ driver.Preparer  = (*Driver)(nil)
	_ driver.Checker   = (*Driver)(nil)
	_ driver.Inspector = (*Driver)(nil)
)

// New prepares Dir. It does not connect to the service; Probe does.
func New(o Options) (*Driver, error) {
	if o.Key == "" {
		return nil, fault.New(fault.Invalid, "the backend e2b needs an API key: set E2B_API_KEY")
	}

	d := &Driver{o: o, log: o.Logger, byID: map[string]machine{}, http: client()}
	if d.log == nil {
		d.log = slog.New(slog.DiscardHandler)
	}

	d.o.Domain = cmp.Or(o.Domain, defaultDomain)
	d.api = NewAPIClient(APIOptions{
		URL: cmp.Or(o.APIURL, "https://api."+d.o.Domain), Key: o.Key, CreateRate: cmp.Or(o.CreateRate, 1), HTTP: d.http,
	})

	var err error
	if d.o.Dir, err = driver.PrivateDir(o.Dir); err != nil {
		return nil, fault.Wrap(fault.Invalid, err, "folder of the sandboxes")
	}

	if d.owner, err = driver.Owner(d.o.Dir); err != nil {
		return nil, fault.Wrap(fault.Invalid, err, "name of this host")
	}

	if d.sandboxd, err = readProgram(o.SandboxdPath); err != nil {
		return nil, fault.Wrap(fault.Invalid, err, "sandboxd")
	}

	if d.filter, err = seccomp.Compile(false); err != nil {
		return nil, fault.Wrap(fault.Internal, err, "system call filter")
	}

	return d, os.MkdirAll(filepath.Join(d.o.Dir, locksDir), 0o700)
}

// defaultDomain is the domain of E2B's own service.
const defaultDomain = "e2b.app"

// client follows no redirects: the API key and the machines' tokens are only for the operator's addresses.
func client() *http.Client {
	return &http.Client{
		Transport:     transport(),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// transport keeps more connections than the default: each control connection has an open stream.
func transport() *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone() //nolint:forcetypeassert // it is one
	t.DialContext, t.HTTP2 = lostconn.Dialer(30*time.Second).DialContext, lostconn.HTTP2()
	t.MaxIdleConnsPerHost = 64
	t.IdleConnTimeout = 30 * time.Second

	return t
}

// Probe fails if the service does not answer, or refuses the key.
func (d *Driver) Probe(ctx context.Context) error {
	_, err := d.api.List(ctx, map[string]string{metaOwner: d.owner})
	return err
}

// Prepare implements driver.Preparer: it refuses what a sandbox of E2B cannot have.
func (d *Driver) Prepare(_ context.Context, spec driver.Spec) error {
	_, err := d.template(spec)
	return err
}

// Check implements driver.Checker.
func (d *Driver) Check(ctx context.Context) []driver.Finding {
	f := driver.Finding{Name: "E2B account", Detail: "the key is accepted at " + cmp.Or(d.o.APIURL, "api."+d.o.Domain)}
	if err := d.Probe(ctx); err != nil {
		f.Level, f.Detail, f.Fix = driver.Fail, err.Error(), "set E2B_API_KEY to a key of the account, or take e2b out of sandbox.backends"
		return []driver.Finding{f}
	}

	t := driver.Finding{Name: "E2B template", Detail: d.o.Template}
	if d.o.Template == "" {
		t.Level, t.Detail, t.Fix = driver.Warn, "none: each task must name one", "set sandbox.e2b.template"
	}

	return []driver.Finding{f, t}
}
