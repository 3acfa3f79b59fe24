// Package e2btest imitates E2B's API for tests: the control plane, and envd of each sandbox. A sandbox is a
// group of processes with namespaces and a root file system of their own instead of a virtual machine. It
// needs root.
package e2btest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/rolloutd/rolloutd/internal/image/imagetest"
)

// Template is the name of the only template. Its machines have the programs that the suite of sandbox drivers needs.
const Template = "suite"

// Sizes of the template's machines, as the control plane reports them.
const (
	CPU       = 2
	MemoryMiB = 2048
)

// Server is the service. Set its fields before the first request.
type Server struct {
	// of the control plane, and of all sandboxes
	URL string
	Key string
	// OnlyV1 disables version 2 of the API for creation.
	OnlyV1 bool
	// MaxSandboxes is the quota of the account; 0: none.
	MaxSandboxes int
	// NoCgroups makes machines without cgroups.
	NoCgroups bool

	http *httptest.Server
	dir  string

	mu       sync.Mutex
	machines map[string]*machine

	// for the next creations
	refusals []refusal

	// method and path of each request to the control plane
	requests []string
}

// refusal is an error answer.
type refusal struct {
	status     int
	retryAfter string
}

// UnavailableError reports that this machine cannot run the service's sandboxes.
type UnavailableError struct{ reason string }

func (e *UnavailableError) Error() string { return e.reason }

// Start starts the service with all its files in dir.
func Start(ctx context.Context, dir string) (*Server, error) {
	if os.Geteuid() != 0 {
		return nil, &UnavailableError{"only root runs sandboxes of the service for tests"}
	}

	s := &Server{Key: "e2b_" + strings.Repeat("0123456789abcdef", 3)[:40], dir: dir, machines: map[string]*machine{}}
	if err := s.makeTemplate(); err != nil {
		return nil, err
	}

	m, err := s.boot(ctx, newID())
	if err != nil {
		return nil, &UnavailableError{"this machine runs no sandboxes of the service for tests: " + err.Error()}
	}
	// The machine may not allow the nested namespaces that enclose a sandbox.
	out, err := m.command(0, "/", "unshare", "--user", "--map-root-user", "--mount", "--pid", "--net", "--ipc", "--uts", "--cgroup", "--fork",
		"--mount-proc", "true").
		CombinedOutput()
	if killErr := m.kill(); killErr != nil {
		return nil, killErr
	}

	if err != nil {
		return nil, &UnavailableError{fmt.Sprintf("this machine makes no namespaces within others: %v: %s", err, out)}
	}

	s.http = httptest.NewServer(s.handler())
	s.URL = s.http.URL

	return s, nil
}

// Stop ends all sandboxes and the service.
func (s *Server) Stop() error {
	s.mu.Lock()
	all := s.machines
	s.machines = map[string]*machine{}
	s.mu.Unlock()

	var err error
	for _, m := range all {
		err = errors.Join(err, m.kill())
	}

	s.http.Close()

	return err
}

// Refuse makes the next creation fail with a status, and with a Retry-After unless that is "".
func (s *Server) Refuse(status int, retryAfter string) {
	s.mu.Lock()
	defer s.mu.Unlock()

	s.refusals = append(s.refusals, refusal{status, retryAfter})
}

// Requests returns the requests to the control plane so far, as "METHOD /path".
func (s *Server) Requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()

	return append([]string(nil), s.requests...)
}

// Machines returns the metadata of the running sandboxes, by id.
func (s *Server) Machines() map[string]map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()

	all := map[string]map[string]string{}
	for id, m := range s.machines {
		all[id] = m.metadata
	}

	return all
}

// Kill ends a sandbox without a request, as a fault of the service would.
func (s *Server) Kill(id string) error {
	s.mu.Lock()
	m := s.machines[id]
	delete(s.machines, id)
	s.mu.Unlock()

	if m == nil {
		return fmt.Errorf("no sandbox %q", id)
	}

	return m.kill()
}

// makeTemplate fills the root file system that is copied for each sandbox.
func (s *Server) makeTemplate() error {
	root := filepath.Join(s.dir, "template")
	for _, folder := range []string{"etc", "proc", "dev", "tmp", "root", "home/user"} {
		if err := os.MkdirAll(filepath.Join(root, folder), 0o755); err != nil {
			return err
		}
	}

	if err := errors.Join(
		imagetest.Fill(root, append(imagetest.Programs(), "umount", "unshare", "mount")),
		imagetest.Glibc(root),
	); err != nil {
		return err
	}

	if err := errors.Join(
		os.Chown(filepath.Join(root, "home/user"), 1000, 1000),
		os.Chmod(filepath.Join(root, "tmp"), 0o777|os.ModeSticky),
	); err != nil {
		return err
	}

	accounts := "root:x:0:0:root:/root:/bin/bash\nuser:x:1000:1000::/home/user:/bin/bash\n"

	return errors.Join(
		os.WriteFile(filepath.Join(root, "etc/passwd"), []byte(accounts), 0o644),
		os.WriteFile(filepath.Join(root, "etc/group"), []byte("root:x:0:\nuser:x:1000:\n"), 0o644),
	)
}

// add starts a sandbox that ends after a time.
func (s *Server) add(ctx context.Context, m *machine, lives time.Duration) error {
	booted, err := s.boot(ctx, m.id)
	if err != nil {
		return err
	}

	m.vm = booted

	s.mu.Lock()
	defer s.mu.Unlock()

	m.endAt = time.Now().Add(lives)
	m.expiry = time.AfterFunc(lives, func() { _ = s.Kill(m.id) })
	s.machines[m.id] = m

	return nil
}

// Programs adds programs of this machine to the template, with their libraries.
func (s *Server) Programs(names ...string) error {
	return imagetest.Fill(filepath.Join(s.dir, "template"), names)
}

// Python adds this machine's Python to the template.
func (s *Server) Python() error { return imagetest.Python(filepath.Join(s.dir, "template")) }

// AddProgram adds a static program of this machine to the template.
func (s *Server) AddProgram(path, from string) error {
	at := filepath.Join(s.dir, "template", path)
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		return err
	}

	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}

	return os.WriteFile(at, data, 0o755)
}

func newID() string { return "i" + strings.ToLower(rand.Text()[:19]) }

func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	s.controlPlane(mux)
	s.envd(mux)

	return mux
}
