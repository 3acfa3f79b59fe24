package process_test

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/sandboxd/process"
)

// For all sizes of writes and reads, the bytes read are those written at the same offsets. Only the middle
// may be missing, and both ends are always kept.
func TestOutputKeepsBothEnds(t *testing.T) {
	t.Parallel()

	for _, size := range []int{0, 1, process.Keep - 1, process.Keep, process.Keep + 1, 2 * process.Keep, 2*process.Keep + 1, 5*process.Keep + 777} {
		random := rand.New(rand.NewPCG(1, uint64(size)))

		all := make([]byte, size)
		for i := range all {
			all[i] = byte(random.Uint32())
		}

		var o process.Output

		for rest := all; len(rest) > 0; {
			n := min(len(rest), random.IntN(3*process.Keep/2)+1)
			written, err := o.Write(rest[:n])
			require.NoError(t, err)
			require.Equal(t, n, written)
			rest = rest[n:]
		}

		var read int

		for at := int64(0); at < int64(size); {
			data, next := o.Read(at, random.IntN(300_000)+1)
			start := next - int64(len(data))
			require.GreaterOrEqual(t, start, at)
			require.Greater(t, next, at)
			require.True(t, bytes.Equal(all[start:next], data), "size %d at %d", size, at)
			read += len(data)
			at = next
		}

		require.Equal(t, min(size, 2*process.Keep), read, "size %d", size)
	}
}
