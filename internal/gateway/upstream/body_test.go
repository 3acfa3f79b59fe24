package upstream

import (
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/input/membudget"
)

// A reply takes memory for its decoded form and releases it when it is closed. A reply for which there is
// no memory is not decoded.
func TestBodyTakesMemory(t *testing.T) {
	t.Parallel()

	const reply = `{"text":"hi","output_ids":[5],"meta_info":{"finish_reason":{"type":"stop"},"prompt_tokens":1,"completion_tokens":1}}`

	memory := membudget.New(1<<20, 0)
	body := func(size int) *generateBody {
		padded := reply + strings.Repeat(" ", size)

		return &generateBody{
			ReadCloser: io.NopCloser(strings.NewReader(padded)),
			Sent:       []byte(`{"prompt":[1]}`),
			Limit:      1 << 20,
			Memory:     memory.Of(""),
		}
	}
	b := body(8 << 10)
	out, err := io.ReadAll(b)
	require.NoError(t, err)
	require.Contains(t, string(out), `"token_ids":[5]`)
	require.GreaterOrEqual(t, memory.Used(), int64(32*8<<10))
	require.NoError(t, b.Close())
	require.Zero(t, memory.Used())

	_, err = io.ReadAll(body(64 << 10))
	require.ErrorIs(t, err, membudget.ErrBusy)
	require.Zero(t, memory.Used())
}
