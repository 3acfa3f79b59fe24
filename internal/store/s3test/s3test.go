// Package s3test runs a real S3-compatible server for tests: versitygw, which keeps its blobs in a folder
// and checks signatures.
package s3test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/store/emulator"
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
	// its folder: a folder in it is a bucket, a file in that a blob
	Dir string
	*emulator.Proxy
}

// Start starts a server with an empty bucket.
func Start(t testing.TB) *Server {
	t.Helper()
	program := install(t)
	s := &Server{Dir: t.TempDir()}
	require.NoError(t, os.Mkdir(filepath.Join(s.Dir, Bucket), 0o700))
	// the path of a socket is at most 107 bytes long
	short, err := os.MkdirTemp("", "s3-")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(short) })

	socket := filepath.Join(short, "s")
	cmd := exec.Command(program, "--quiet", "--keep-alive", "--port", socket, "posix", "--sidecar", t.TempDir(), s.Dir)
	cmd.Env = []string{"ROOT_ACCESS_KEY=" + AccessKey, "ROOT_SECRET_KEY=" + SecretKey, "HOME=" + short}
	server := emulator.Start(t, cmd)
	s.Proxy = emulator.NewProxy(t)
	s.To("unix", socket)
	server.Answers(t, "http://"+s.Address())

	return s
}

// URL is the store's URL of a bucket.
func (s *Server) URL(bucket string) string {
	return fmt.Sprintf("s3://%s?region=us-east-1&use_path_style=true&endpoint=http://%s", bucket, s.Address())
}

// Profiles writes a file of AWS profiles: right has the credentials of the server, wrong another secret, empty none.
func Profiles(dir string) (path string, err error) {
	path = filepath.Join(dir, "credentials")
	text := fmt.Sprintf(
		"[right]\naws_access_key_id=%[1]s\naws_secret_access_key=%[2]s\n[wrong]\naws_access_key_id=%[1]s\naws_secret_access_key=x%[2]s\n[empty]\n",
		AccessKey,
		SecretKey,
	)

	return path, os.WriteFile(path, []byte(text), 0o600)
}

// Env are the variables by which a program has the credentials.
func Env() []string {
	return []string{
		"AWS_ACCESS_KEY_ID=" + AccessKey, "AWS_SECRET_ACCESS_KEY=" + SecretKey,
		"AWS_EC2_METADATA_DISABLED=true",
	}
}

// install builds the server once for this user; the Go module proxy has its source.
func install(t testing.TB) string {
	t.Helper()
	dir := emulator.Once(t, "s3-versitygw-"+version, func(dir string) error {
		cmd := exec.CommandContext(
			t.Context(),
			"go",
			"install",
			"-ldflags",
			"-s -w",
			"github.com/versity/versitygw/cmd/versitygw@"+version,
		)
		// outside of our modules
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GOBIN="+dir, "GOFLAGS=", "CGO_ENABLED=0")

		return emulator.Run(cmd)
	})

	return filepath.Join(dir, "versitygw")
}
