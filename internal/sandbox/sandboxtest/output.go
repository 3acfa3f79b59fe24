package sandboxtest

import (
	"bytes"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

func outputTests() map[string]func(*testing.T, Harness) {
	return map[string]func(*testing.T, Harness){
		"Offsets":      offsets,
		"Gap":          gap,
		"Bomb":         outputBomb,
		"AnyBytes":     anyBytes,
		"HeldPipe":     heldPipe,
		"BadRequests":  badLogRequests,
		"EOFOnlyAtEnd": eofOnlyAtEnd,
		"WaitForMore":  waitForMore,
	}
}

func offsets(t *testing.T, h Harness) {
	p := h.place(t)
	p.StartBash("out", "printf 0123456789; printf abc >&2")

	ran := p.End("out")
	for _, c := range []struct {
		offset int64
		limit  int
		want   string
		next   int64
		eof    bool
	}{
		{0, 100, "0123456789", 10, true},
		{0, 4, "0123", 4, false},
		{4, 4, "4567", 8, false},
		{8, 4, "89", 10, true},
		{10, 4, "", 10, true},
		{99, 4, "", 10, true},
		{0, 0, "", 0, false},
	} {
		chunk, err := p.Log(t.Context(), "out", "stdout", c.offset, c.limit)
		require.NoError(t, err)
		require.Equal(t, c.want, string(chunk.Data), "%+v", c)
		require.Equal(t, c.next, chunk.Next, "%+v", c)
		require.Equal(t, c.eof, chunk.EOF, "%+v", c)
	}

	tail, err := p.Tail(t.Context(), ran.Status, "stdout", 3)
	require.NoError(t, err)
	require.Equal(t, "789", string(tail))
	tail, err = p.Tail(t.Context(), ran.Status, "stderr", 100)
	require.NoError(t, err)
	require.Equal(t, "abc", string(tail))
}

// The first and the last part of a long stream are kept, and a reader sees the gap between them.
func gap(t *testing.T, h Harness) {
	const size = 5_000_000

	p := h.place(t)
	p.StartBash("long", "printf FIRST; head -c 4999990 /dev/zero; printf LAST.")
	require.EqualValues(t, size, p.End("long").StdoutSize)

	var (
		got        bytes.Buffer
		lost, next int64
	)
	for eof := false; !eof; {
		chunk, err := p.Log(t.Context(), "long", "stdout", next, 300_000)
		require.NoError(t, err)

		lost += chunk.Next - int64(len(chunk.Data)) - next
		got.Write(chunk.Data)
		next, eof = chunk.Next, chunk.EOF
	}

	require.EqualValues(t, size, next)
	require.EqualValues(t, size, lost+int64(got.Len()))
	require.Positive(t, lost)
	require.True(t, bytes.HasPrefix(got.Bytes(), []byte("FIRST\x00")))
	require.True(t, bytes.HasSuffix(got.Bytes(), []byte("\x00LAST.")))
}

// A flood neither blocks its producer nor fills any memory.
func outputBomb(t *testing.T, h Harness) {
	p := h.place(t)
	p.StartBash("flood", "head -c 300000000 /dev/zero; head -c 100000000 /dev/zero >&2; echo end")
	st := p.End("flood")
	require.Zero(t, st.ExitCode)
	require.EqualValues(t, 300_000_004, st.StdoutSize)
	require.EqualValues(t, 100_000_000, st.StderrSize)
	tail, err := p.Tail(t.Context(), st.Status, "stdout", 5)
	require.NoError(t, err)
	require.Equal(t, "\x00end\n", string(tail))
}

func anyBytes(t *testing.T, h Harness) {
	p := h.place(t)
	out := p.Bash(`printf '\xff\xfe\x00\x1b[31mred\r\n'`)
	require.Equal(t, "\xff\xfe\x00\x1b[31mred\r\n", out.Stdout)
}

// The end of a process is its own exit. A child left in the background that holds the pipe does not put it off, is not
// killed by a closed pipe, and adds nothing any more.
func heldPipe(t *testing.T, h Harness) {
	p := h.place(t)
	p.StartBash("parent", "(while :; do echo child; sleep 0.01; done; ) & echo $! > /tmp/child; echo parent")
	st := p.End("parent")
	require.Zero(t, st.ExitCode)
	chunk, err := p.Log(t.Context(), "parent", "stdout", 0, 1<<20)
	require.NoError(t, err)
	require.True(t, chunk.EOF)
	require.Contains(t, string(chunk.Data), "parent\n")
	require.Zero(t, p.Bash("sleep 0.1; kill -0 $(cat /tmp/child)").ExitCode, "the child lives on")
	later, err := p.Status(t.Context(), "parent")
	require.NoError(t, err)
	require.Equal(t, st.StdoutSize, later.StdoutSize)
}

func badLogRequests(t *testing.T, h Harness) {
	p := h.place(t)
	p.StartBash("out", "true")
	_, err := p.Log(t.Context(), "out", "stdin", 0, 10)
	require.Equal(t, fault.Invalid, fault.KindOf(err))
	_, err = p.Log(t.Context(), "out", "stdout", -1, 10)
	require.Equal(t, fault.Invalid, fault.KindOf(err))
}

func eofOnlyAtEnd(t *testing.T, h Harness) {
	p := h.place(t)
	p.StartBash("live", "echo one; sleep infinity")
	p.Says("live", "one\n")
	chunk, err := p.Log(t.Context(), "live", "stdout", 4, 10)
	require.NoError(t, err)
	require.Empty(t, chunk.Data)
	require.False(t, chunk.EOF)
}

// A wait for output ends with the next output, with the process, or when its time is over.
func waitForMore(t *testing.T, h Harness) {
	const long = time.Minute

	p := h.place(t)
	p.StartBash(
		"late",
		"echo one; until [ -e two ]; do sleep 0.01; done; echo two; until [ -e end ]; do sleep 0.01; done",
	)
	p.Says("late", "one\n")
	chunk, err := p.WaitLog(t.Context(), "late", "stdout", 0, 100, long)
	require.NoError(t, err)
	require.Equal(t, "one\n", string(chunk.Data), "what is there is not waited for")
	chunk, err = p.WaitLog(t.Context(), "late", "stdout", 4, 100, 50*time.Millisecond)
	require.NoError(t, err)
	require.Empty(t, chunk.Data)
	require.False(t, chunk.EOF)

	began := time.Now()

	for _, c := range []struct {
		cause string
		want  string
		eof   bool
	}{{"two", "two\n", false}, {"end", "", true}} {
		offset := chunk.Next

		var waits sync.WaitGroup
		waits.Go(func() { chunk, err = p.WaitLog(t.Context(), "late", "stdout", offset, 100, long) })
		require.NoError(t, p.WriteFile(t.Context(), rollout.Home+"/"+c.cause, strings.NewReader(""), 0o644))
		waits.Wait()
		require.NoError(t, err)
		require.Equal(t, c.want, string(chunk.Data))
		require.Equal(t, c.eof, chunk.EOF)
	}

	require.Less(t, time.Since(began), long)
}
