package traceindex_test

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/trajectory/sequence"
	"github.com/rolloutd/rolloutd/internal/trajectory/tokens"
	"github.com/rolloutd/rolloutd/internal/trajectory/traceindex"
	"github.com/rolloutd/rolloutd/internal/trajectory/transcript"
	"github.com/rolloutd/rolloutd/internal/trajectory/turns"
)

// counted counts the bytes that are read of a file.
type counted struct {
	*os.File
	bytes int64
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.File.Read(p)
	c.bytes += int64(n)

	return n, err
}

func (c *counted) ReadAt(p []byte, at int64) (int, error) {
	n, err := c.File.ReadAt(p, at)
	c.bytes += int64(n)

	return n, err
}

// BenchmarkLongTrace reads parts of a trace of 500 turns: the last page of turns and a window of tokens, from the
// trace and from its index, and the making of the index.
func BenchmarkLongTrace(b *testing.B) {
	trace := traceOf(b, 500, 2500, nil)
	index := built(b, trace)
	path := func(name string, data []byte) string {
		path := filepath.Join(b.TempDir(), name)
		require.NoError(b, os.WriteFile(path, data, 0o600))

		return path
	}
	tracePath, indexPath := path("trace", trace), path("index", index)

	window := tokens.Window{Start: 100_000, Limit: tokens.DefaultTokens}
	open := func(f *counted) *traceindex.Index {
		i, err := traceindex.Open(f, int64(len(index)), about)
		require.NoError(b, err)

		return i
	}

	for _, c := range []struct {
		name, path string
		read       func(f *counted) error
	}{
		{"turns=trace", tracePath, func(f *counted) error {
			conversation := transcript.NewConversation()
			return turns.Each(f, turns.Unbounded, func(t *rollout.Turn) error { _ = conversation.Turn(t); return nil })
		}},
		{"turns=index", indexPath, func(f *counted) error { _, err := open(f).Turns(450, transcript.MaxTurns); return err }},
		{"tokens=trace", tracePath, func(f *counted) error { _, err := tokens.Read(f, sequence.Choice{}, window); return err }},
		{"tokens=index", indexPath, func(f *counted) error { _, err := open(f).Tokens(sequence.Choice{}, window); return err }},
		{"make", tracePath, func(f *counted) error { return traceindex.Build(f, about, io.Discard) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			file, err := os.Open(c.path)
			require.NoError(b, err)

			defer file.Close()

			f := &counted{File: file}

			for b.Loop() {
				_, err := file.Seek(0, io.SeekStart)
				require.NoError(b, err)
				require.NoError(b, c.read(f))
			}

			b.ReportMetric(float64(f.bytes)/float64(b.N), "B-read/op")
		})
	}
}
