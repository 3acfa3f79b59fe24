// Package gcstest runs a server with the API of Google Cloud Storage for tests: fake-gcs-server, which
// checks no credentials.
package gcstest

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/store/emulator"
)

// Bucket is the bucket that a server has at its start.
const Bucket = "rollouts"

// Server is a server that ends with its test. It is reached through a listener of the test's own process.
type Server struct{ *emulator.Proxy }

// Start starts a server with an empty bucket.
func Start(t testing.TB) *Server {
	t.Helper()
	program := install(t)
	// the path of a socket is at most 107 bytes long
	short, err := os.MkdirTemp("", "gcs-")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(short) })
	s := &Server{Proxy: emulator.NewProxy(t)}
	socket := filepath.Join(short, "s")
	server := emulator.Start(t, exec.Command(program, "-socket", socket, "-address", s.Address(), "-bucket", Bucket))
	s.To("unix", socket)
	server.Answers(t, "http://"+s.Address())

	return s
}

// Env are the variables by which a program reaches the server instead of Google's.
func (s *Server) Env() []string { return []string{"STORAGE_EMULATOR_HOST=" + s.Address()} }

// install builds the server once for this user.
func install(t testing.TB) string {
	t.Helper()

	const this = "github.com/rolloutd/rolloutd/internal/store/gcstest"

	here, err := exec.CommandContext(t.Context(), "go", "list", "-f", "{{.Dir}}", this).Output()
	require.NoError(t, err)

	source := filepath.Join(strings.TrimSpace(string(here)), "server")
	sum := sha256.New()

	for _, name := range []string{"main.go", "go.mod", "go.sum"} {
		text, err := os.ReadFile(filepath.Join(source, name))
		require.NoError(t, err)

		_, _ = sum.Write(text)
	}

	dir := emulator.Once(t, fmt.Sprintf("gcs-%x", sum.Sum(nil)[:8]), func(dir string) error {
		cmd := exec.CommandContext(
			t.Context(),
			"go",
			"build",
			"-ldflags",
			"-s -w",
			"-o",
			filepath.Join(dir, "server"),
			".",
		)
		cmd.Dir = source

		cmd.Env = append(os.Environ(), "GOFLAGS=", "CGO_ENABLED=0")

		return emulator.Run(cmd)
	})

	return filepath.Join(dir, "server")
}
