package files_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/delivery"
	"github.com/rolloutd/rolloutd/internal/delivery/files"
	"github.com/rolloutd/rolloutd/internal/delivery/sinktest"
)

func TestSuite(t *testing.T) {
	t.Parallel()
	for _, groups := range []int{1, 3} {
		sinktest.Run(t, func(t *testing.T) sinktest.Subject {
			o := files.Options{Folder: t.TempDir(), Format: files.JSONLines, Groups: groups, Age: time.Hour}
			sink := files.New(o)
			return sinktest.Subject{
				Sink:    sink,
				Restart: func(*testing.T) delivery.Sink { return files.New(o) },
				Received: func(t *testing.T) []float64 {
					require.NoError(t, sink.Flush(t.Context()))
					return firsts(t, lines(t, o.Folder))
				},
			}
		})
	}
}

type line struct {
	GroupID   string  `json:"group_id"`
	RolloutID string  `json:"rollout_id"`
	Reward    float64 `json:"reward"`
}

// lines reads all files of a folder.
func lines(t *testing.T, folder string) (out []line) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(folder, "shard-*"))
	require.NoError(t, err)
	for _, name := range names {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		for _, one := range bytes.Split(bytes.TrimSpace(text), []byte("\n")) {
			var l line
			require.NoError(t, json.Unmarshal(one, &l), name)
			out = append(out, l)
		}
	}
	return out
}

// firsts are the rewards of the first rollouts of the groups.
func firsts(t *testing.T, all []line) (out []float64) {
	t.Helper()
	require.Zero(t, len(all)%sinktest.Size)
	for i := 0; i < len(all); i += sinktest.Size {
		require.Equal(t, all[i].GroupID, all[i+1].GroupID)
		out = append(out, all[i].Reward)
	}
	return out
}

// A file appears when it is whole, with as many groups as it is to have; an older one with fewer.
func TestFilesAreClosedWhole(t *testing.T) {
	t.Parallel()
	o := files.Options{Folder: filepath.Join(t.TempDir(), "made"), Format: files.JSONLines, Groups: 2, Age: time.Hour}
	sink := files.New(o)
	require.NoError(t, sink.Deliver(t.Context(), sinktest.Group(1)))
	require.Empty(t, lines(t, o.Folder))
	require.NoError(t, sink.Deliver(t.Context(), sinktest.Group(2)))
	require.Len(t, lines(t, o.Folder), 2*sinktest.Size)
	require.NoError(t, sink.Deliver(t.Context(), sinktest.Group(3)))
	require.Len(t, lines(t, o.Folder), 2*sinktest.Size)
	o.Age = time.Nanosecond
	_, err := files.New(o).Status(t.Context())
	require.NoError(t, err)
	require.Len(t, lines(t, o.Folder), 3*sinktest.Size)
	require.NoError(t, sink.Flush(t.Context()), "nothing is left")
	names, err := os.ReadDir(o.Folder)
	require.NoError(t, err)
	require.Len(t, names, 3, "two files and the database")
}

// A folder that cannot be written to is retried; the group is not lost and not doubled.
func TestFolderInTheWay(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	o := files.Options{Folder: folder, Format: files.JSONLines}
	blocked := filepath.Join(folder, ".shard-000001.jsonl.tmp")
	require.NoError(t, os.Mkdir(blocked, 0o755))
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	sink := files.New(o)
	require.Error(t, sink.Deliver(ctx, sinktest.Group(1)))
	require.Error(t, sink.Deliver(ctx, sinktest.Group(1)))
	require.NoError(t, os.Remove(blocked))
	require.NoError(t, sink.Deliver(ctx, sinktest.Group(2)))
	require.Equal(t, []float64{1, 2}, firsts(t, lines(t, folder)))
}
