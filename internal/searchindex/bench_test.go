package searchindex_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

// BenchmarkSearch searches 10,000 transcripts of 20 KB, for a word that one of them has, words that half of them have,
// a phrase, and a word that all have with a filter that two of them pass.
func BenchmarkSearch(b *testing.B) {
	const rollouts = 10_000

	d := newDeployment(b)
	random := rand.New(rand.NewPCG(1, 2))

	for i := range rollouts {
		r := result(fmt.Sprint("r", i), i)
		r.TaskID = fmt.Sprint("task-", i/2)
		texts := make([]string, 5)

		for n := range texts {
			texts[n] = prose(random, 700)
		}

		texts[3] += fmt.Sprint(" needle", i, " half", i%2, " the end")
		d.end(r, texts...)
	}

	start := time.Now()

	require.NoError(b, d.index.Update(b.Context()))

	made := time.Since(start)

	info, err := os.Stat(d.file)
	require.NoError(b, err)
	b.Logf("index: %d MiB, made in %s", info.Size()>>20, made)

	for name, f := range map[string]rollout.Filter{
		"rare":   {Query: "needle77"},
		"half":   {Query: "half1 works"},
		"phrase": {Query: `"half0 the end"`},
		"begin":  {Query: "needle9*"},
		"filter": {Query: "works", TaskID: "task-7"},
		"none":   {Query: "half0 half1"},
	} {
		f.Limit = 50

		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				_, err := d.index.Search(b.Context(), f)
				require.NoError(b, err)
			}
		})
	}
}

// prose is a text of words, some of which are frequent.
func prose(random *rand.Rand, words int) string {
	var text strings.Builder
	for range words {
		fmt.Fprintf(&text, "w%d ", int(5000*random.Float64()*random.Float64()))
	}

	return text.String()
}
