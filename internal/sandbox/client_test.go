package sandbox_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/driver"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandbox"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

// fake is a driver of one sandbox whose sandboxd is the handler of the test.
type fake struct {
	addr    string
	dialErr atomic.Pointer[error]
	created driver.Spec
	renewed time.Duration

	destroyed atomic.Int32
}

func newFake(t *testing.T, h http.HandlerFunc) *fake {
	t.Helper()

	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)

	return &fake{addr: srv.Listener.Addr().String()}
}

func (f *fake) Create(_ context.Context, _ string, spec driver.Spec) error {
	f.created = spec
	return nil
}

func (f *fake) Dial(ctx context.Context, _ string) (net.Conn, error) {
	if err := f.dialErr.Load(); err != nil {
		return nil, *err
	}

	return (&net.Dialer{}).DialContext(ctx, "tcp", f.addr)
}

func (f *fake) Destroy(context.Context, string) error {
	f.destroyed.Add(1)
	return nil
}

func (f *fake) List(context.Context) ([]driver.Info, error) {
	return nil, errors.New("the provider's own words")
}

func (f *fake) Renew(_ context.Context, _ string, lease time.Duration) error {
	f.renewed = lease
	return nil
}

// puller is a fake that lacks one image.
type puller struct {
	fake

	lacks  string
	pulled []string
}

func (p *puller) Prepare(_ context.Context, spec driver.Spec) error {
	if spec.Image == p.lacks {
		return fault.New(fault.Exhausted, "no space for it")
	}

	p.pulled = append(p.pulled, spec.Image)

	return nil
}

// The images of services are fetched with that of the sandbox, not within the time of their start.
func TestPrepareServices(t *testing.T) {
	t.Parallel()

	p := &puller{lacks: "redis"}
	b := sandbox.New(p, sandbox.Options{})
	s := rollout.Sandbox{Image: "main", Services: []rollout.Service{{Name: "db", Image: "postgres"}}}
	require.NoError(t, b.Prepare(t.Context(), s))
	require.Equal(t, []string{"main", "postgres"}, p.pulled)

	s.Services = append(s.Services, rollout.Service{Name: "cache", Image: "redis"})
	err := b.Prepare(t.Context(), s)
	require.Equal(t, fault.Exhausted, fault.KindOf(err), "%v", err)
	require.ErrorContains(t, err, `service "cache"`)
}

func create(t *testing.T, f *fake) *sandbox.Sandbox {
	t.Helper()
	s, err := sandbox.New(f, sandbox.Options{}).Create(t.Context(), "R_1.2", rollout.Sandbox{}, nil)
	require.NoError(t, err)

	return s
}

// The error kind that sandboxd sends is the kind that the caller gets.
func TestKindsAreKept(t *testing.T) {
	t.Parallel()

	for _, kind := range []fault.Kind{fault.NotFound, fault.Invalid, fault.OutOfDisk, fault.OutOfMemory, fault.Exhausted, fault.Timeout} {
		s := create(t, newFake(t, func(w http.ResponseWriter, r *http.Request) {
			assert.Equal(t, "R_1.2", r.Host)
			w.WriteHeader(fault.EdgeOf(kind).HTTPStatus)
			_, _ = io.WriteString(w, `{"kind":"`+string(kind)+`","message":"in words"}`)
		}))
		_, err := s.Start(t.Context(), "x", wire.Process{})
		require.Equal(t, kind, fault.KindOf(err))
		require.ErrorContains(t, err, "in words")
		_, err = s.GetTar(t.Context(), "/x")
		require.Equal(t, kind, fault.KindOf(err))
		require.Equal(t, kind, fault.KindOf(s.WriteFile(t.Context(), "/x", strings.NewReader("x"), 0)))
	}
}

// A broken exchange means a lost sandbox only if the driver confirms it.
func TestBrokenConnection(t *testing.T) {
	t.Parallel()
	f := newFake(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	s := create(t, f)
	_, err := s.Info(t.Context())
	require.Equal(t, fault.Unavailable, fault.KindOf(err), "%v", err)

	lost := error(fault.New(fault.SandboxLost, "gone"))
	f.dialErr.Store(&lost)

	_, err = s.Info(t.Context())
	require.Equal(t, fault.SandboxLost, fault.KindOf(err), "%v", err)

	plain := errors.New("network down")
	f.dialErr.Store(&plain)

	_, err = s.Info(t.Context())
	require.Equal(t, fault.Unavailable, fault.KindOf(err), "%v", err)
	require.ErrorIs(t, err, plain)
}

// A truncated tar is an error.
func TestBrokenTar(t *testing.T) {
	t.Parallel()
	s := create(t, newFake(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "part")
		_ = http.NewResponseController(w).Flush()

		panic(http.ErrAbortHandler)
	}))
	r, err := s.GetTar(t.Context(), "/x")
	require.NoError(t, err)
	data, err := io.ReadAll(r)
	require.Equal(t, "part", string(data))
	require.Equal(t, fault.Unavailable, fault.KindOf(err), "%v", err)
	require.NoError(t, r.Close())
}

// A program of the agent may have taken the place of sandboxd.
func TestLogBeyondItsLimitIsRefused(t *testing.T) {
	t.Parallel()

	f := newFake(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set(wire.LogNextHeader, "10")

		for range 1 << 10 {
			if _, err := w.Write(make([]byte, 1<<10)); err != nil {
				return
			}
		}
	})
	chunk, err := create(t, f).Log(t.Context(), "agent", "stdout", 0, 10)
	require.ErrorContains(t, err, "more than the 10 bytes that were asked for")
	require.Equal(t, fault.Unavailable, fault.KindOf(err))
	require.Empty(t, chunk)
}

func TestRepliesOfAnotherServer(t *testing.T) {
	t.Parallel()
	s := create(t, newFake(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/info" {
			_, _ = io.WriteString(w, "no JSON")
			return
		}

		http.Error(w, "a proxy in between", http.StatusBadGateway)
	}))
	_, err := s.Info(t.Context())
	require.Error(t, err)
	_, err = s.Status(t.Context(), "x")
	require.Equal(t, fault.Internal, fault.KindOf(err), "%v", err)
	require.ErrorContains(t, err, "a proxy in between")
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	f := newFake(t, nil)
	b := sandbox.New(f, sandbox.Options{Defaults: driver.Spec{PIDs: 9, MemoryMiB: 8}})
	labels := map[string]string{driver.LabelRollout: "r"}
	_, err := b.Create(t.Context(), "x", rollout.Sandbox{Image: "i", CPU: 3, MemoryMiB: 7, DiskMiB: 6}, labels)
	require.NoError(t, err)

	got := f.created
	require.Equal(t, driver.Spec{
		Image:     "i",
		CPU:       3,
		MemoryMiB: 7,
		PIDs:      9,
		HomeMiB:   6,
		TmpMiB:    got.TmpMiB,
		Lease:     got.Lease,
		Labels:    labels,
	}, got)
	require.Positive(t, got.TmpMiB)
	require.Positive(t, got.Lease)
	_, err = b.Create(t.Context(), "x", rollout.Sandbox{}, nil)
	require.NoError(t, err)
	require.Equal(t, 8, f.created.MemoryMiB)
	require.Positive(t, f.created.CPU)
	require.Positive(t, f.created.HomeMiB)
}

// Renew extends both leases: the provider's and sandboxd's.
func TestRenewBoth(t *testing.T) {
	t.Parallel()

	bodies := make(chan string, 1)
	f := newFake(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		bodies <- r.URL.Path + " " + string(body)

		w.WriteHeader(http.StatusNoContent)
	})
	require.NoError(t, create(t, f).Renew(t.Context(), 90*time.Second))
	require.Equal(t, `/v1/lease {"ttl_ms":90000}`, <-bodies)
	require.Equal(t, 90*time.Second, f.renewed)
}

// Usage that the driver cannot measure is -1.
func TestWithoutInspector(t *testing.T) {
	t.Parallel()
	u, err := sandbox.New(newFake(t, nil), sandbox.Options{}).Inspect(t.Context(), "x")
	require.NoError(t, err)
	require.Equal(t, driver.NoUsage(), u)
}

func TestListReturnsTheDriversError(t *testing.T) {
	t.Parallel()
	_, err := sandbox.New(newFake(t, nil), sandbox.Options{}).List(t.Context())
	require.ErrorContains(t, err, "the provider's own words")
}
