package store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"io"
	"iter"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// Bounds of a stored task set, in bytes, without the tasks' files.
const (
	maxSet  = 256 << 20
	maxTask = 8 << 20
)

// PutTasks stores the rollouts of a task set under the digest of all; their files must be in the store. It
// does not rewrite a set that was written today. The blob begins with the offset of each task and of the end, 8 bytes
// each, big-endian, followed by the tasks as JSON.
func (s *Store) PutTasks(ctx context.Context, tasks iter.Seq2[rollout.Spec, error]) (rollout.SetRef, error) {
	var (
		text bytes.Buffer
		ends []int
	)

	for spec, err := range tasks {
		if err != nil {
			return rollout.SetRef{}, err
		}

		if err := json.NewEncoder(&text).Encode(spec); err != nil {
			return rollout.SetRef{}, fault.Wrap(fault.Internal, err, "encode task %s", spec.Task.ID)
		}

		if text.Len() > maxSet {
			return rollout.SetRef{}, fault.Field("tasks",
				"must have instructions, setup and verifiers of at most %d MiB together",
				maxSet>>20)
		}

		ends = append(ends, text.Len())
	}

	head := make([]byte, 0, 8*(len(ends)+1))
	start := 8 * (len(ends) + 1)

	head = binary.BigEndian.AppendUint64(head, uint64(start))
	for _, end := range ends {
		head = binary.BigEndian.AppendUint64(head, uint64(start+end))
	}

	sum := sha256.New()
	sum.Write(head)
	sum.Write(text.Bytes())

	ref := rollout.SetRef{Key: rollout.SetKey(hex.EncodeToString(sum.Sum(nil))), Len: len(ends)}
	if there, err := s.inUse(ctx, ref.Key); err != nil || there {
		return ref, err
	}

	_, err := s.Put(ctx, ref.Key, io.MultiReader(bytes.NewReader(head), &text))

	return ref, err
}

// Task reads one task of a stored set; fault.NotFound: no such set, fault.Invalid: no such task.
func (s *Store) Task(ctx context.Context, ref rollout.TaskRef) (rollout.Spec, error) {
	var spec rollout.Spec
	if err := ref.Validate(); err != nil {
		return spec, err
	}

	at, err := s.part(ctx, ref.Set.Key, 8*int64(ref.Index), 16)
	if err != nil {
		return spec, err
	}

	if len(at) != 16 {
		return spec, fault.New(fault.Invalid, "read %q: there is no task %d", ref.Set.Key, ref.Index)
	}

	start, end := binary.BigEndian.Uint64(at), binary.BigEndian.Uint64(at[8:])
	if end < start || end-start > maxTask || end > 2*maxSet {
		return spec, fault.New(fault.Invalid, "read %q: the blob is damaged: task %d cannot have the offsets %d to %d",
			ref.Set.Key, ref.Index, start, end)
	}

	text, err := s.part(ctx, ref.Set.Key, int64(start), int64(end-start))
	if err != nil {
		return spec, err
	}

	return spec, fault.Wrap(fault.Invalid, json.Unmarshal(text, &spec), "decode task %d of %q", ref.Index, ref.Set.Key)
}

// part reads up to n bytes of a blob from an offset.
func (s *Store) part(ctx context.Context, key string, offset, n int64) ([]byte, error) {
	r, err := s.rangeReader(ctx, key, offset, n)
	if err != nil {
		return nil, err
	}
	defer r.Close()

	data, err := io.ReadAll(r)

	return data, classify(err, "read", key)
}
