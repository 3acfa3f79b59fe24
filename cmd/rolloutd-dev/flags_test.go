package main

import (
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/config"
)

// Wrong arguments are refused with the correct form before anything starts.
func TestWrongArgumentsAreRefused(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		args []string
		want string
	}{
		{[]string{"tempral"}, `rolloutd-dev has no command "tempral"; did you mean temporal?`},
		{[]string{"temporal", "x"}, `rolloutd-dev temporal: want no argument, got ["x"]`},
		{[]string{"--port", "-1"}, `--port: want a number from 0 to 65535, got "-1"`},
		{[]string{"--ui-port", "65536"}, `--ui-port: want a number from 0 to 65535, got "65536"`},
		{[]string{"--temporal-port", "x"}, `--temporal-port: want a number from 0 to 65535, got "x"`},
		{[]string{"--demo", ""}, "--demo: must not be empty"},
		{[]string{"--mode", "fast"}, `serve.mode: want simulation or production, got "fast"`},
		{[]string{"temporal", "--port", "8000"}, "unknown flag: --port; see rolloutd-dev temporal --help"},
		{[]string{"temporal", "--codec-endpoint", "127.0.0.1:8000/codec"}, `--codec-endpoint: want http://HOST:PORT/codec or https://HOST:PORT/codec, got "127.0.0.1:8000/codec"`},
	} {
		cmd := command(std{io.Discard, io.Discard, config.Environ{}})
		cmd.SetArgs(tc.args)
		require.ErrorContains(t, cmd.ExecuteContext(t.Context()), tc.want)
	}
	cmd := command(std{io.Discard, io.Discard, config.Environ{"ROLLOUTD_LISTN": "127.0.0.1:0"}})
	cmd.SetArgs([]string{})
	require.ErrorContains(t, cmd.ExecuteContext(t.Context()), "ROLLOUTD_LISTN: unknown variable; did you mean ROLLOUTD_LISTEN?")
}
