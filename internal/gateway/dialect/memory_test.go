package dialect_test

import (
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// While a call lasts, its translation keeps one copy of the conversation: the one that is sent.
//
//nolint:paralleltest // it measures the memory of the whole process
func TestMemoryOfATranslation(t *testing.T) {
	const size = 4 << 20

	for api, around := range map[string][2]string{
		"messages":  {`{"model":"m","messages":[{"role":"user","content":"`, `"}]}`},
		"responses": {`{"model":"m","input":[{"role":"user","content":"`, `"}]}`},
		"google":    {`{"contents":[{"role":"user","parts":[{"text":"`, `"}]}]}`},
	} {
		t.Run(api, func(t *testing.T) {
			before := heldBytes()

			call, err := translations()[api]([]byte(around[0] + strings.Repeat("x", size) + around[1]))
			require.NoError(t, err)

			require.Less(t, heldBytes(), before+uint64(cap(call.Body))+size/2)
			runtime.KeepAlive(call)
		})
	}
}

func heldBytes() uint64 {
	var m runtime.MemStats

	// the first one leaves the pools of encoders
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)

	return m.HeapAlloc
}
