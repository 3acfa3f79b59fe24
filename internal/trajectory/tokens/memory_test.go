package tokens_test

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/trajectory/sequence"
	"github.com/rolloutd/rolloutd/internal/trajectory/tokens"
)

// A book keeps nothing of the replies that are in no sequence: any process of a sandbox can make foreign calls.
//
//nolint:paralleltest // it measures the memory of the whole process
func TestBookKeepsNoForeignReplies(t *testing.T) {
	const replies, length, most = 100, 100_000, 16 << 20

	book, err := tokens.NewBook(sequence.Choice{})
	require.NoError(t, err)

	before := heldBytes()

	for n := range replies {
		require.NoError(t, book.Add(&rollout.Turn{
			Turn: n + 1, Kind: rollout.KindForeign, Delivered: true, PromptTokenIDs: []int32{1},
			CompletionTokenIDs: make([]int32, length), PerTokenLogps: make([]float64, length),
		}))
	}

	require.Less(t, heldBytes(), before+most)
	runtime.KeepAlive(book)
}

func heldBytes() uint64 {
	var m runtime.MemStats

	runtime.GC()
	runtime.ReadMemStats(&m)

	return m.HeapAlloc
}
