package external

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/stretchr/testify/require"
)

// A process that reads nothing does not hold the call that writes to it, nor those after it.
func TestProcessThatReadsNothingEnds(t *testing.T) {
	t.Parallel()

	transport := &commandTransport{
		argv: []string{"/bin/sleep", "600"}, writeTime: time.Millisecond, log: slog.New(slog.DiscardHandler),
	}
	process, err := transport.Connect(t.Context())
	require.NoError(t, err)

	// more than a pipe holds
	argument, err := json.Marshal(string(bytes.Repeat([]byte("x"), 1<<20)))
	require.NoError(t, err)

	err = process.Write(t.Context(), &jsonrpc.Request{Method: "tools/call", Params: argument})
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)

	_, err = process.Read(t.Context())
	require.Error(t, err, "it has ended")
	require.NoError(t, process.Close())
}
