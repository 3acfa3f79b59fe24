// Package s3test runs a real S3-compatible server for tests: versitygw, which keeps its blobs in a folder and checks signatures.
package s3test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/filelock"
)

// version of versitygw.
const version = "v1.8.0"

// Credentials of the server.
const (
	AccessKey = "rolloutd-test"
	SecretKey = "s3-secret-canary-4711"
)

// Bucket is the bucket that a server has at its start.
const Bucket = "rollouts"

// Server is a server that ends with its test. It is reached through a listener of the test's own process.
type Server struct {
	Dir string // its folder: a folder in it is a bucket, a file in that a blob
	*front
}

// Start starts a server with an empty bucket.
func Start(t testing.TB) *Server {
	t.Helper()
	program := install(t)
	s := &Server{Dir: t.TempDir()}
	require.NoError(t, os.Mkdir(filepath.Join(s.Dir, Bucket), 0o700))
	short, err := os.MkdirTemp("", "s3-") // the path of a socket is at most 107 bytes long
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(short) })
	socket := filepath.Join(short, "s")
	var output bytes.Buffer
	cmd := exec.Command(program, "--quiet", "--keep-alive", "--port", socket, "posix", "--sidecar", t.TempDir(), s.Dir)
	cmd.Env = []string{"ROOT_ACCESS_KEY=" + AccessKey, "ROOT_SECRET_KEY=" + SecretKey, "HOME=" + short}
	cmd.Stdout, cmd.Stderr = &output, &output
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	require.NoError(t, cmd.Start())
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }() // it ends by SIGKILL
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
		if t.Failed() {
			t.Logf("versitygw:\n%s", output.String())
		}
	})
	s.front = startFront(t, socket)
	s.wait(t, ended)
	return s
}

// wait waits until the server answers.
func (s *Server) wait(t testing.TB, ended <-chan struct{}) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.Address(), http.NoBody)
		require.NoError(t, err)
		if res, err := http.DefaultClient.Do(req); err == nil {
			_ = res.Body.Close()
			return
		}
		select {
		case <-ended:
			require.FailNow(t, "versitygw ended at its start")
		case <-ctx.Done():
			require.FailNow(t, "versitygw does not answer")
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// URL is the store's URL of a bucket.
func (s *Server) URL(bucket string) string {
	return fmt.Sprintf("s3://%s?region=us-east-1&use_path_style=true&endpoint=http://%s", bucket, s.Address())
}

// Profiles writes a file of AWS profiles: right has the credentials of the server, wrong another secret, empty none.
func Profiles(dir string) (path string, err error) {
	path = filepath.Join(dir, "credentials")
	text := fmt.Sprintf("[right]\naws_access_key_id=%[1]s\naws_secret_access_key=%[2]s\n[wrong]\naws_access_key_id=%[1]s\naws_secret_access_key=x%[2]s\n[empty]\n", AccessKey, SecretKey)
	return path, os.WriteFile(path, []byte(text), 0o600)
}

// Env are the variables by which a program has the credentials.
func Env() []string {
	return []string{"AWS_ACCESS_KEY_ID=" + AccessKey, "AWS_SECRET_ACCESS_KEY=" + SecretKey, "AWS_EC2_METADATA_DISABLED=true"}
}

// install builds the server once for this user; the Go module proxy has its source.
func install(t testing.TB) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	require.NoError(t, err)
	dir := filepath.Join(cache, "rolloutd-test", "versitygw-"+version)
	require.NoError(t, os.MkdirAll(dir, 0o755))
	program := filepath.Join(dir, "versitygw")
	defer lock(t, dir+".lock")()
	if _, err := os.Stat(program); err == nil {
		return program
	}
	part := filepath.Join(dir, "part")
	cmd := exec.CommandContext(t.Context(), "go", "install", "-ldflags", "-s -w", "github.com/versity/versitygw/cmd/versitygw@"+version)
	cmd.Dir = dir // outside of our modules
	cmd.Env = append(os.Environ(), "GOBIN="+part, "GOFLAGS=", "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.NoError(t, os.Rename(filepath.Join(part, "versitygw"), program))
	return program
}

// lock waits until no other process builds the server.
func lock(t testing.TB, path string) (release func()) {
	t.Helper()
	for {
		l, err := filelock.Take(path)
		if err == nil {
			return func() { require.NoError(t, l.Release()) }
		}
		select {
		case <-t.Context().Done():
			require.FailNow(t, "lock", "%v", errors.Join(err, t.Context().Err()))
		case <-time.After(100 * time.Millisecond):
		}
	}
}
