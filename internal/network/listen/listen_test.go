package listen_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/network/listen"
)

func TestErrorsSayWhatToDo(t *testing.T) {
	t.Parallel()

	l, err := listen.TCP("first", "127.0.0.1:0", "--port")
	require.NoError(t, err)

	defer l.Close()

	_, err = listen.TCP("second", l.Addr().String(), "--port")
	require.ErrorContains(t, err, "second cannot listen on "+l.Addr().String()+", which is in use")
	require.ErrorContains(t, err, "--port")
	_, err = listen.TCP("third", "127.0.0.1:x", "serve.listen")
	require.ErrorContains(t, err, "set by serve.listen")
}
