package opencode_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/driver/local"
	"github.com/rolloutd/rolloutd/internal/gateway"
	"github.com/rolloutd/rolloutd/internal/gateway/admin"
	"github.com/rolloutd/rolloutd/internal/gateway/gatewayapi"
	"github.com/rolloutd/rolloutd/internal/gateway/gatewaytest"
	"github.com/rolloutd/rolloutd/internal/network/egress"
	"github.com/rolloutd/rolloutd/internal/sandbox"
	"github.com/rolloutd/rolloutd/internal/seal"
)

// These environment variables make the test binary a gateway on a folder, which the test kills.
const (
	gatewayFolder   = "ROLLOUTD_TEST_GATEWAY"
	gatewaySandboxd = "ROLLOUTD_TEST_SANDBOXD"
)

// gatewayProcess serves until it is killed or until the test that started it ends. It prints the address of
// its admin API.
func gatewayProcess(dir string) error {
	key, err := seal.LoadOrCreate(filepath.Join(dir, "key"))
	if err != nil {
		return err
	}

	d, err := local.New(local.Options{Dir: filepath.Join(dir, "sandboxes"), SandboxdPath: os.Getenv(gatewaySandboxd)})
	if err != nil {
		return err
	}

	laptop, err := egress.Parse([]string{"127.0.0.0/8", "localhost"})
	if err != nil {
		return err
	}

	srv, err := gateway.New(gateway.Options{
		Egress:  laptop,
		Dir:     filepath.Join(dir, "gateway"),
		Key:     key,
		Dialer:  sandbox.New(d, sandbox.Options{}),
		Backoff: 10 * time.Millisecond,
	})
	if err != nil {
		return err
	}

	api := gatewaytest.NewServer(admin.New(srv, admin.Options{Key: key}).Handler())
	defer api.Close()

	fmt.Println(api.URL)

	ctx, stop := context.WithCancel(context.Background())
	go func() {
		defer stop()
		// stdin ends with the test
		_, _ = io.Copy(io.Discard, os.Stdin)
	}()

	return srv.Run(ctx)
}

// gatewayAt is a gateway in its own process.
type gatewayAt struct {
	*gatewayapi.Client
	cmd   *exec.Cmd
	stdin io.Closer
}

func startGateway(t *testing.T, dir string) *gatewayAt {
	t.Helper()

	key, err := seal.LoadOrCreate(filepath.Join(dir, "key"))
	require.NoError(t, err)
	// ended by kill, or by itself when the test ends
	cmd := exec.Command(os.Args[0])

	cmd.Env = append(os.Environ(), gatewayFolder+"="+dir, gatewaySandboxd+"="+sandboxdPath)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())

	lines := bufio.NewScanner(stdout)
	require.True(t, lines.Scan(), "the gateway ended")

	return &gatewayAt{Client: gatewayapi.NewClient(lines.Text(), key), cmd: cmd, stdin: stdin}
}

// kill sends SIGKILL. A second call is harmless.
func (g *gatewayAt) kill() {
	_ = g.cmd.Process.Kill()
	_ = g.cmd.Wait()
	_ = g.stdin.Close()
}
