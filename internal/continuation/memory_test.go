package continuation_test

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/continuation"
)

// A forest keeps none of the texts of its conversations: neither the thoughts of an agent that sends them back, nor the
// ids that a process may give to calls.
//
//nolint:paralleltest // it measures the memory of the whole process
func TestMemoryOfAForest(t *testing.T) {
	const size, most = 256 << 10, 32 << 20

	for name, message := range map[string]string{
		"thoughts":     `{"role":"assistant","content":"%[1]d","reasoning":"%[1]d %[2]s"}`,
		"ids of calls": `{"role":"assistant","tool_calls":[{"id":"%[1]d %[2]s","function":{"name":"f","arguments":"{}"}}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			var forest continuation.Forest

			before := heldBytes()

			for n := range 200 {
				text := fmt.Sprintf(message, n, strings.Repeat("x", size))
				messages := []json.RawMessage{json.RawMessage(text), json.RawMessage(`{"role":"user","content":"go"}`)}

				forest.Add(forest.Recorded(continuation.Digest{}, messages), continuation.Reply{
					Message: json.RawMessage(`{"role":"assistant","content":"ok"}`), Prompt: []int32{1}, Sampled: []int32{2},
				})
			}

			require.Less(t, heldBytes(), before+most)
			runtime.KeepAlive(&forest)
		})
	}
}

func heldBytes() uint64 {
	var m runtime.MemStats

	runtime.GC()
	runtime.ReadMemStats(&m)

	return m.HeapAlloc
}
