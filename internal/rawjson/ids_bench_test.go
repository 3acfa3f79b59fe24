package rawjson_test

import (
	"math/rand/v2"
	"testing"

	"github.com/rolloutd/rolloutd/internal/rawjson"
)

// BenchmarkIDs reads the ids of a long prompt.
func BenchmarkIDs(b *testing.B) {
	random := rand.New(rand.NewPCG(1, 2))

	ids := make([]int32, 30_000)
	for i := range ids {
		ids[i] = random.Int32N(1 + random.Int32N(150_000))
	}

	list := rawjson.AppendIDs(nil, ids, false)
	b.SetBytes(int64(len(list)))
	into := make([]int32, 0, len(ids))

	for b.Loop() {
		c := rawjson.Cursor{Src: list}
		into, _ = c.IDs(into[:0])
	}
}
