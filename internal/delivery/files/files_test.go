package files_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"

	"github.com/rolloutd/rolloutd/internal/delivery"
	"github.com/rolloutd/rolloutd/internal/delivery/files"
	"github.com/rolloutd/rolloutd/internal/delivery/sinktest"
	"github.com/rolloutd/rolloutd/internal/trajectory/sequence"
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
	GroupID   string  `json:"group_id" parquet:"group_id"`
	RolloutID string  `json:"rollout_id" parquet:"rollout_id"`
	Reward    float64 `json:"reward" parquet:"reward"`
}

// Rows of Parquet have the same values as lines of JSON.
func TestParquet(t *testing.T) {
	t.Parallel()
	sinktest.Run(t, func(t *testing.T) sinktest.Subject {
		o := files.Options{Folder: t.TempDir(), Format: files.Parquet, Groups: 3, Age: time.Hour}
		sink := files.New(o)

		return sinktest.Subject{
			Sink:    sink,
			Restart: func(*testing.T) delivery.Sink { return files.New(o) },
			Received: func(t *testing.T) []float64 {
				require.NoError(t, sink.Flush(t.Context()))

				names, err := filepath.Glob(filepath.Join(o.Folder, "shard-*.parquet"))
				require.NoError(t, err)

				var all []line

				for _, name := range names {
					rows, err := parquet.ReadFile[line](name)
					require.NoError(t, err)

					all = append(all, rows...)
				}

				return firsts(t, all)
			},
		}
	})
}

func TestColumnsOfParquet(t *testing.T) {
	t.Parallel()
	o := files.Options{Folder: t.TempDir(), Format: files.Parquet}

	group := sinktest.Group(1)
	group.Data[0].Rewards = map[string]float64{"style": 0.5}
	first := &group.Data[0].Trajectory.Sequences[0]
	first.Images = []sequence.Image{{Turn: 2, Start: 3, Stop: 4}}
	first.RoutedExperts = &sequence.RoutedExperts{Rows: 5, Parts: []sequence.ExpertPart{}}

	require.NoError(t, files.New(o).Deliver(t.Context(), group))
	rows, err := parquet.ReadFile[struct {
		TokenIDs []int32   `parquet:"token_ids,list"`
		LossMask []int32   `parquet:"loss_mask,list"`
		Logprobs []float64 `parquet:"logprobs,list"`
		Spans    string    `parquet:"spans"`
		Trained  int32     `parquet:"trained"`
		Rewards  *string   `parquet:"rewards,optional"`
		Images   *string   `parquet:"images,optional"`
		Experts  *string   `parquet:"routed_experts,optional"`
	}](filepath.Join(o.Folder, "shard-000001.parquet"))
	require.NoError(t, err)
	require.Len(t, rows, sinktest.Size)
	require.Equal(t, []int32{1, 2, 1001, 3, 2000, 5}, rows[0].TokenIDs)
	require.Equal(t, []int32{0, 0, 1, 0, 1, 1}, rows[0].LossMask)
	require.Equal(t, []float64{0, 0, -0.5, 0, -0.25, -2}, rows[0].Logprobs)
	require.Equal(t, int32(3), rows[0].Trained)
	require.Contains(t, rows[0].Spans, `"finish_reason":"tool_calls"`)
	require.JSONEq(t, `{"style":0.5}`, *rows[0].Rewards)
	require.Contains(t, *rows[0].Images, `"turn":2,"start":3,"stop":4`)
	require.JSONEq(t, `{"rows":5,"parts":[]}`, *rows[0].Experts)
	require.Nil(t, rows[1].Rewards)
	require.Nil(t, rows[1].Images)
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

// firsts returns the reward of the first rollout of each group.
func firsts(t *testing.T, all []line) (out []float64) {
	t.Helper()
	require.Zero(t, len(all)%sinktest.Size)

	for i := 0; i < len(all); i += sinktest.Size {
		require.Equal(t, all[i].GroupID, all[i+1].GroupID)
		out = append(out, all[i].Reward)
	}

	return out
}

// A file appears once it is complete with its number of groups, or with fewer groups once it reaches its maximum age.
func TestFilesAppearComplete(t *testing.T) {
	t.Parallel()
	o := files.Options{Folder: filepath.Join(t.TempDir(), "made"), Format: files.JSONLines, Groups: 2, Age: time.Hour}
	sink := files.New(o)
	require.NoError(t, sink.Deliver(t.Context(), sinktest.Group(1)))
	require.Empty(t, lines(t, o.Folder))
	require.NoError(t, sink.Deliver(t.Context(), sinktest.Group(2)))
	require.Len(t, lines(t, o.Folder), 2*sinktest.Size)
	require.NoError(t, sink.Deliver(t.Context(), sinktest.Group(3)))
	require.Len(t, lines(t, o.Folder), 2*sinktest.Size)
	require.NoError(t, sink.CloseDue(t.Context()))
	require.Len(t, lines(t, o.Folder), 2*sinktest.Size)
	o.Age = time.Nanosecond
	require.NoError(t, files.New(o).CloseDue(t.Context()))
	require.Len(t, lines(t, o.Folder), 3*sinktest.Size)
	require.NoError(t, sink.Flush(t.Context()), "nothing is left")

	names, err := os.ReadDir(o.Folder)
	require.NoError(t, err)
	require.Len(t, names, 3, "two files and the database")
}

// A delivery to a folder that cannot be written to can be retried. The group is neither lost nor duplicated.
func TestFolderIsNotWritable(t *testing.T) {
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

// A sink that was killed while it closed a file completes the file. It does not write a file again that was
// renamed before, and that its reader has moved away.
func TestKilledWhileAFileIsClosed(t *testing.T) {
	t.Parallel()

	const name, temporary = "shard-000001.jsonl", ".shard-000001.jsonl.tmp"
	for title, c := range map[string]struct {
		written string

		// the temporary file
		left string
		want []float64
	}{
		"before it was complete":  {"", "half a li", []float64{1, 2}},
		"before it was renamed":   {name, "", []float64{1, 2}},
		"after it was moved away": {name, "none", []float64{2}},
	} {
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			o := files.Options{Folder: t.TempDir(), Format: files.JSONLines, Groups: 2, Age: time.Hour}
			require.NoError(t, files.New(o).Deliver(t.Context(), sinktest.Group(1)))
			path := filepath.Join(o.Folder, temporary)

			switch c.left {
			case "none":
			case "":
				whole := files.Options{Folder: t.TempDir(), Format: files.JSONLines}
				require.NoError(t, files.New(whole).Deliver(t.Context(), sinktest.Group(1)))
				require.NoError(t, os.Rename(filepath.Join(whole.Folder, name), path))
			default:
				require.NoError(t, os.WriteFile(path, []byte(c.left), 0o600))
			}

			closing(t, o.Folder, c.written)
			o.Groups = 1
			require.NoError(t, files.New(o).Deliver(t.Context(), sinktest.Group(2)))
			require.Equal(t, c.want, firsts(t, lines(t, o.Folder)))
			require.FileExists(t, filepath.Join(o.Folder, "shard-000002.jsonl"))
		})
	}
}

// closing changes the database of a folder to the state in which the file of its first group is being closed.
func closing(t *testing.T, folder, written string) {
	t.Helper()

	db, err := bbolt.Open(filepath.Join(folder, ".rolloutd.db"), 0o600, &bbolt.Options{Timeout: time.Minute})
	require.NoError(t, err)
	require.NoError(t, db.Update(func(tx *bbolt.Tx) error {
		state, err := json.Marshal(map[string]any{"files": 0, "closing": 1, "written": written})
		if err != nil {
			return err
		}

		return tx.Bucket([]byte("about")).Put([]byte("present"), state)
	}))
	require.NoError(t, db.Close())
}
