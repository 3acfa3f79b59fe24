package trace_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/rawjson"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/trace"
)

const firstSegment = "00000001.trace"

func segments(t testing.TB, dir string) []string {
	t.Helper()

	list, err := filepath.Glob(filepath.Join(dir, "*.trace"))
	require.NoError(t, err)

	return list
}

func size(t *testing.T, path string) int64 {
	t.Helper()

	info, err := os.Stat(path)
	require.NoError(t, err)

	return info.Size()
}

// After a crash that cuts the file at any byte, the complete records before the cut are in their own logs,
// the incomplete one is gone, and records can be appended.
func TestCutAtEveryByte(t *testing.T) {
	t.Parallel()
	cutEverywhere(t, 1, func(i int) *trace.Record {
		r := record(i+1, fmt.Sprint("call-", i))
		// more bytes would need more rounds
		r.Request, r.Reply = []byte("{}"), []byte("data: {}\n\n")

		return r
	})
}

// The same holds for records stored as differences. The test cuts at a sample of their bytes.
func TestCutAmongDifferences(t *testing.T) {
	t.Parallel()
	cutEverywhere(t, 997, func(i int) *trace.Record { return longRecord(i+1, i/2) })
}

// cutEverywhere cuts a file with alternating records of two routes at every step-th byte.
func cutEverywhere(t *testing.T, step int, newRecord func(i int) *trace.Record) {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, firstSegment)
	store := openStore(t, dir, unsynced())

	var (
		all  []*trace.Record
		ends []int64
	)

	for i := range 4 {
		all = append(all, newRecord(i))
		require.NoError(t, store.Log(routeOf(i)).Append(all[i]))
		ends = append(ends, size(t, path))
		require.NoError(t, store.Log(routeOf(i)).Delivered(i+1))
	}

	require.NoError(t, store.Close())

	raw, err := os.ReadFile(path)
	require.NoError(t, err)

	for cut := 0; cut < len(raw); cut += step {
		require.NoError(t, os.WriteFile(path, raw[:cut], 0o600))

		want := map[string][]*trace.Record{}

		for i, r := range all {
			if int64(cut) >= ends[i] {
				want[routeOf(i)] = append(want[routeOf(i)], r)
			}
		}

		checkReopened(t, dir, want, cut)
	}
}

func routeOf(i int) string { return fmt.Sprint("route-", i%2) }

// checkReopened requires exactly these records twice: after the cut, and after one more record was appended.
func checkReopened(t *testing.T, dir string, want map[string][]*trace.Record, cut int) {
	t.Helper()

	next := record(9, "next")

	for range 2 {
		s, err := trace.Open(dir, unsynced())
		require.NoError(t, err)

		for i := range 2 {
			require.Equalf(t, want[routeOf(i)], records(t, s.Log(routeOf(i))), "cut at %d", cut)
		}

		require.Zerof(t, s.Damaged(), "cut at %d", cut)
		require.NoError(t, s.Log(routeOf(1)).Append(next))
		want[routeOf(1)] = append(want[routeOf(1)], next)

		require.NoError(t, s.Close())
	}
}

func records(t *testing.T, l *trace.Log) []*trace.Record {
	t.Helper()

	var all []*trace.Record

	for _, e := range l.Entries() {
		r, err := l.Read(e)
		require.NoError(t, err)

		all = append(all, r)
	}

	return all
}

// A damaged byte in the middle loses its own record and the records stored as differences to it, but no
// other record after it, even if the length of the record is damaged.
func TestDamagedRecordIsSkipped(t *testing.T) {
	t.Parallel()

	for _, at := range []int64{0, 4, 7, 8, 11, 12, 100, 5000} {
		dir := t.TempDir()
		path := filepath.Join(dir, firstSegment)
		store := openStore(t, dir, trace.Options{})
		require.NoError(t, store.Log("a").Append(longRecord(1, 1)))
		first := size(t, path)
		require.NoError(t, store.Log("b").Append(longRecord(1, 1)))
		require.NoError(t, store.Log("a").Append(longRecord(2, 2)))
		require.NoError(t, store.Log("b").Append(longRecord(2, 2)))
		require.NoError(t, store.Close())

		raw, err := os.ReadFile(path)
		require.NoError(t, err)

		raw[first+at] ^= 0x81
		require.NoError(t, os.WriteFile(path, raw, 0o600))

		store = openStore(t, dir, trace.Options{})
		require.Equal(t, 2, store.Damaged())
		require.Equal(t, []*trace.Record{longRecord(1, 1), longRecord(2, 2)}, records(t, store.Log("a")))
		require.Empty(t, store.Log("b").Entries())
		require.Equal(t, int64(len(raw)), size(t, path), "nothing is cut")
	}
}

// Damaged rows of routed experts are missing from their record, and the rows of other records stay in their places.
func TestDamagedExpertRowsAreMissing(t *testing.T) {
	t.Parallel()

	dir := t.TempDir()
	path := filepath.Join(dir, firstSegment)
	store := openStore(t, dir, trace.Options{})
	require.NoError(t, store.Log("a").Append(routed(record(1, "one"), "11")))
	first := size(t, path)
	require.NoError(t, store.Log("a").Append(routed(record(2, "two"), "22")))
	require.NoError(t, store.Log("a").Append(routed(record(3, "three"), "33")))
	require.NoError(t, store.Close())

	raw, err := os.ReadFile(path)
	require.NoError(t, err)

	// the rows stand before their record
	raw[first+12] ^= 0x81
	require.NoError(t, os.WriteFile(path, raw, 0o600))

	store = openStore(t, dir, trace.Options{})
	require.Equal(t, 1, store.Damaged())

	var rows, missing []string

	log := store.Log("a")
	for i, r := range records(t, log) {
		own, err := log.ExpertRows(log.Entries()[i])
		require.NoError(t, err)

		rows, missing = append(rows, string(own)), append(missing, r.Experts.Missing)
		require.Equal(t, int(r.Experts.Bytes()), len(own))
	}

	require.Equal(t, []string{"11", "", "33"}, rows)
	require.Equal(t, []string{"", "their record is damaged", ""}, missing)
}

// routed gives a record a row for each byte of rows.
func routed(r *trace.Record, rows string) *trace.Record {
	r.ExpertRows = []byte(rows)
	r.Experts = &rollout.RoutedExperts{Rows: len(rows), Width: 1, Type: rollout.ExpertUint8}

	return r
}

// The rows of a sampling mask are in the same frame, also where there are no experts.
func TestRowsOfSamplingMasks(t *testing.T) {
	t.Parallel()

	dir := t.TempDir()
	store := openStore(t, dir, trace.Options{})
	r := record(1, "one")
	r.ExpertRows, r.SamplingMask = []byte("12345678"), &rollout.SamplingMask{Rows: 1, IDs: 1}
	require.NoError(t, store.Log("a").Append(r))
	require.NoError(t, store.Close())

	log := openStore(t, dir, trace.Options{}).Log("a")
	require.Equal(t, r.SamplingMask, records(t, log)[0].SamplingMask)

	rows, err := log.ExpertRows(log.Entries()[0])
	require.NoError(t, err)
	require.Equal(t, "12345678", string(rows))
}

// A file of another program is not a segment, even if its name has a number.
func TestOtherFilesAreNoSegments(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	store := openStore(t, dir, unsynced())
	require.NoError(t, store.Log("k").Append(record(1, "a")))
	require.NoError(t, store.Close())
	raw, err := os.ReadFile(segments(t, dir)[0])
	require.NoError(t, err)

	for _, name := range []string{"1.trace", "+1.trace", "0000000001.trace", "00000001", "00000000.trace", "2", "notes.trace"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), raw, 0o600))
	}

	store = openStore(t, dir, unsynced())
	require.Len(t, store.Log("k").Entries(), 1)
	require.NoError(t, store.Log("k").Append(record(2, "b")))
	require.Len(t, store.Log("k").Entries(), 2)
	require.NoError(t, store.Close())
	require.Len(t, openStore(t, dir, unsynced()).Log("k").Entries(), 2)
}

// A segment is deleted when no log has a record in it any more. The records of a dropped log do not return.
func TestSegmentsAreDeletedWithTheirLogs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	small := trace.Options{SegmentSize: 1}
	store := openStore(t, dir, small)
	a, b := store.Log("a"), store.Log("b")
	require.NoError(t, a.Append(longRecord(1, 1)))
	require.NoError(t, b.Append(longRecord(1, 1)))
	require.NoError(t, a.Append(longRecord(2, 2)))
	require.NoError(t, b.Append(longRecord(2, 2)))
	require.Len(t, segments(t, dir), 4)
	require.NoError(t, a.Drop())
	require.Len(t, segments(t, dir), 2)
	require.Error(t, a.Append(longRecord(3, 3)))
	require.Empty(t, store.Log("a").Entries())
	require.Equal(t, []*trace.Record{longRecord(1, 1), longRecord(2, 2)}, records(t, b))
	require.NoError(t, store.Close())

	store = openStore(t, dir, small)
	require.Empty(t, store.Log("a").Entries())
	require.Equal(t, []*trace.Record{longRecord(1, 1), longRecord(2, 2)}, records(t, store.Log("b")))
	require.NoError(t, store.Retain(func(string) bool { return false }))
	require.Len(t, segments(t, dir), 1, "the one that is written to")
	require.Empty(t, store.Log("b").Entries())
}

// A record of a dropped log, in a segment that another log has a record in, is not damaged because the segment of its
// base is gone.
func TestDroppedLogsAreNotDamaged(t *testing.T) {
	t.Parallel()

	dir := t.TempDir()
	// the first record fills a segment, the difference to it does not
	options := trace.Options{SegmentSize: 10 << 10}
	store := openStore(t, dir, options)
	a, b := store.Log("a"), store.Log("b")
	require.NoError(t, a.Append(longRecord(1, 1)))
	require.NoError(t, a.Append(longRecord(2, 2)))
	require.NoError(t, b.Append(record(1, "b")))
	require.Len(t, segments(t, dir), 2)
	require.NoError(t, a.Drop())
	require.Len(t, segments(t, dir), 1)
	require.NoError(t, store.Close())

	store = openStore(t, dir, options)
	require.NoError(t, store.Retain(func(key string) bool { return key == "b" }))
	require.Zero(t, store.Damaged())
	require.Equal(t, []*trace.Record{record(1, "b")}, records(t, store.Log("b")))
}

// The parts of a request and a prompt that equal the previous turn are not written again, and are present
// when the record is read.
func TestTurnsAreWrittenAsDifferences(t *testing.T) {
	t.Parallel()
	// more than a chain of differences has
	const turns = 40

	dir := t.TempDir()
	store := openStore(t, dir, unsynced())

	var want []*trace.Record

	bytesOf := 0

	for n := range turns {
		r := longRecord(n+1, n)
		bytesOf += len(r.Request) + 4*len(r.PromptTokenIDs)
		want = append(want, r)
		require.NoError(t, store.Log("k").Append(r))
	}

	require.Equal(t, want, records(t, store.Log("k")))
	require.Less(t, size(t, filepath.Join(dir, firstSegment)), int64(bytesOf/3))
	require.NoError(t, store.Close())
	require.Equal(t, want, records(t, openStore(t, dir, unsynced()).Log("k")))
}

// A reply is read with its prompt's ids at their original position, regardless of how its record is stored.
func TestReplyOfADifference(t *testing.T) {
	t.Parallel()
	l := open(t)

	for n := range 40 {
		// a prompt that is cut and grows again
		r := longRecord(n+1, n%20)
		r.Reply, r.PromptAt = rawjson.AppendIDs(
			[]byte(`{"id":1,"prompt_token_ids":`),
			r.PromptTokenIDs,
			false,
		), rawjson.Span{
			Start: 27,
		}
		r.PromptAt.End = len(r.Reply)
		r.Reply = append(r.Reply, `,"choices":[]}`...)
		require.NoError(t, l.Append(r))
		e := l.Entries()[n]
		got, err := l.Reply(e)
		require.NoError(t, err)
		require.Equal(t, string(r.Reply), string(got))
		require.GreaterOrEqual(t, e.Bytes(), int64(4*len(r.PromptTokenIDs)))
	}
}

// longRecord returns a turn of a growing conversation. Its request ends in tools that stay the same.
func longRecord(turn, past int) *trace.Record {
	r := record(turn, fmt.Sprint("call-", turn))

	var messages bytes.Buffer
	for i := range past + 2 {
		fmt.Fprintf(&messages, `{"role":"user","content":"%d %s"},`, i, bytes.Repeat([]byte{byte('a' + i%26)}, 1500))
	}

	r.Request = fmt.Appendf(
		nil,
		`{"messages":[%s{}],"tools":[%q]}`,
		messages.Bytes(),
		bytes.Repeat([]byte("tool"), 1200),
	)

	r.PromptTokenIDs = make([]int32, 700*(past+1))
	for i := range r.PromptTokenIDs {
		r.PromptTokenIDs[i] = int32(i * i)
	}

	return r
}
