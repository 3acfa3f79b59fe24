package main

import (
	"io"
	"net"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/config"
)

// Wrong arguments cause an error that names the correct form, before anything starts.
func TestWrongArgumentsAreRefused(t *testing.T) {
	t.Parallel()

	for _, tc := range []struct {
		args []string
		want string
	}{
		{[]string{"tempral"}, `rolloutd-dev has no command "tempral"; did you mean temporal?`},
		{[]string{"temporal", "x"}, `rolloutd-dev temporal takes no argument, got ["x"]`},
		{[]string{"--port", "-1"}, `--port: must be a number from 0 to 65535, got "-1"`},
		{[]string{"--ui-port", "65536"}, `--ui-port: must be a number from 0 to 65535, got "65536"`},
		{[]string{"--temporal-port", "x"}, `--temporal-port: must be a number from 0 to 65535, got "x"`},
		{[]string{"--port-offset", "60000"}, "--port-offset: port 8000 plus 60000 is above 65535"},
		{[]string{"--demo", ""}, "rolloutd-dev: TASK.yaml must not be empty"},
		{[]string{"--demo", "a.yaml", "b.yaml"}, `rolloutd-dev takes TASK.yaml, got ["a.yaml" "b.yaml"]`},
		{[]string{"a.yaml"}, `rolloutd-dev has no command "a.yaml"`},
		{[]string{"--mode", "fast"}, `serve.mode: must be simulation or production, got "fast"`},
		{[]string{"temporal", "--port", "8000"}, "unknown flag: --port; see rolloutd-dev temporal --help"},
		{[]string{"temporal", "--codec-endpoint", "127.0.0.1:8000/codec"}, `--codec-endpoint: must be http://HOST:PORT/codec or https://HOST:PORT/codec, got "127.0.0.1:8000/codec"`},
	} {
		cmd := command(std{io.Discard, io.Discard, config.Environ{}})
		cmd.SetArgs(tc.args)
		require.ErrorContains(t, cmd.ExecuteContext(t.Context()), tc.want)
	}

	cmd := command(std{io.Discard, io.Discard, config.Environ{"ROLLOUTD_LISTN": "127.0.0.1:0"}})
	cmd.SetArgs([]string{})
	require.ErrorContains(
		t,
		cmd.ExecuteContext(t.Context()),
		"ROLLOUTD_LISTN: unknown variable; did you mean ROLLOUTD_LISTEN?",
	)
}

// --port-offset moves every fixed port. Ports that the kernel chooses do not change.
func TestPortOffset(t *testing.T) {
	t.Parallel()

	load := func(args ...string) (config.Config, *flags) {
		environ := config.Environ{"ROLLOUTD_TRAINER_API_LISTEN": "127.0.0.1:8001"}
		f := &flags{s: std{io.Discard, io.Discard, environ}}
		cmd := &cobra.Command{}
		f.registerCommon(cmd)
		f.registerDaemon(cmd)
		require.NoError(t, cmd.ParseFlags(append(args, "--data", t.TempDir())))

		c, err := f.load()
		require.NoError(t, err)

		return c, f
	}
	c, f := load("--port-offset", "100")
	require.Equal(t, "127.0.0.1:8100", c.Serve.Listen)
	require.Equal(t, "127.0.0.1:7170", c.Gateway.Listen)
	require.Equal(t, "127.0.0.1:7171", c.Gateway.TrainerListen)
	require.Equal(t, "127.0.0.1:9199", c.Model.Listen)
	require.Equal(t, "127.0.0.1:9564", c.Telemetry.Listen)
	require.Equal(t, "127.0.0.1:8101", c.TrainerAPI.Listen)
	require.Equal(t, "127.0.0.1:0", c.Worker.Listen)
	require.Empty(t, c.Worker.ToolsListen)
	require.Equal(t, []uint16{7333, 8333}, []uint16{f.temporalPort, f.uiPort})
	c, f = load("--port-offset", "100", "--port", "9000", "--ui-port", "0")
	require.Equal(t, "127.0.0.1:9100", c.Serve.Listen)
	require.Zero(t, f.uiPort)
}

func TestTakenPortNamesTheOffset(t *testing.T) {
	t.Parallel()

	held, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)

	defer held.Close()

	_, port, err := net.SplitHostPort(held.Addr().String())
	require.NoError(t, err)
	p := launch(t, t.TempDir(), "--port", port)
	require.ErrorContains(t, <-p.done, "--port-offset")
}
