package membudget_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/input/membudget"
)

func TestRead(t *testing.T) {
	t.Parallel()

	m := membudget.New(2<<20, 16<<10).Of("a")

	for _, n := range []int{0, 1, 511, 512, 513, 16 << 10, 100_000, 1 << 20} {
		want := bytes.Repeat([]byte("x"), n)
		got, release, err := m.Read(bytes.NewReader(want), 1<<20)
		require.NoError(t, err, n)
		require.True(t, bytes.Equal(want, got), n)
		release()
		// repeated calls have no effect
		release()
	}

	var large *membudget.TooLargeError

	_, _, err := m.Read(strings.NewReader("12345"), 4)
	require.ErrorAs(t, err, &large)

	broken := errors.New("broken")
	_, _, err = m.Read(iotest.ErrReader(broken), 4)
	require.ErrorIs(t, err, broken)
}

// Requests in progress hold their memory. Small requests are always accepted, and failed requests hold no memory.
func TestMemoryIsShared(t *testing.T) {
	t.Parallel()

	m := membudget.New(2<<20, 16<<10).Of("a")
	large := strings.Repeat("x", 600_000)
	_, release, err := m.Read(strings.NewReader(large), 1<<20)
	require.NoError(t, err)

	for range 3 {
		_, _, err = m.Read(strings.NewReader(large), 1<<20)
		require.ErrorIs(t, err, membudget.ErrBusy)
	}

	_, _, err = m.Read(strings.NewReader(large[:16<<10-1]), 1<<20)
	require.NoError(t, err)
	release()
	_, release, err = m.Read(strings.NewReader(large), 1<<20)
	require.NoError(t, err)
	release()
}

// A client that holds the maximum of its share leaves memory for another client.
func TestClientLeavesMemoryForOthers(t *testing.T) {
	t.Parallel()

	m := membudget.New(2<<20, 16<<10)
	large := strings.Repeat("x", 1<<19)

	var held []func()

	for {
		_, release, err := m.Of("a").Read(strings.NewReader(large), 1<<19)
		if err != nil {
			require.ErrorIs(t, err, membudget.ErrBusy)
			break
		}

		held = append(held, release)
	}

	require.NotEmpty(t, held)

	_, release, err := m.Of("b").Read(strings.NewReader(large), 1<<19)
	require.NoError(t, err)
	release()

	for _, release := range held {
		release()
	}

	_, release, err = m.Of("a").Read(strings.NewReader(large), 1<<19)
	require.NoError(t, err)
	release()
}

// Without tokens all clients count as one, which may use all of the memory.
func TestClientsWithoutANameShareAll(t *testing.T) {
	t.Parallel()

	fit := func(client string) (n int) {
		m := membudget.New(2<<20, 16<<10)
		for {
			_, _, err := m.Of(client).Read(strings.NewReader(strings.Repeat("x", 1<<18)), 1<<18)
			if err != nil {
				require.ErrorIs(t, err, membudget.ErrBusy)
				return n
			}

			n++
		}
	}
	require.GreaterOrEqual(t, fit(""), 2*fit("a"))
}

// A member of a name holds at most half of what is free for that name, however many members do the same.
func TestMembersLeaveMemoryForOthers(t *testing.T) {
	t.Parallel()

	m := membudget.New(2<<20, 0)
	fill := func(id string) (bytes int64) {
		for m.Of("a").Member(id).Part().Resize(1<<10) == nil {
			bytes += 1 << 10
		}

		return bytes
	}

	require.False(t, m.Of("a").Low())

	left := int64(1 << 20)

	for n := range 3 {
		require.False(t, m.Of("a").Low())

		got := fill(strings.Repeat("x", n+1))
		require.Equal(t, left/2, got, n)
		left -= got
	}

	require.True(t, m.Of("a").Low())
	require.False(t, m.Of("b").Low())
	require.NoError(t, m.Of("a").Member("late").Part().Resize(left/2))

	freed := membudget.New(2<<20, 0)
	one := freed.Of("a").Member("one").Part()
	require.NoError(t, one.Resize(896<<10), "one part leaves an eighth")
	require.ErrorIs(t, one.More(1<<10), membudget.ErrBusy)
	require.NoError(t, one.Resize(512<<10))
	require.ErrorIs(
		t,
		freed.Of("a").Member("one").Part().Resize(1),
		membudget.ErrBusy,
		"parts of one member count together",
	)
	one.Release()
	require.NoError(t, freed.Of("a").Member("one").Part().Resize(512<<10))
	require.NoError(
		t,
		freed.Of("a").Member("two").Part().Resize(256<<10),
		"the share of another member is half of what is left",
	)
	require.ErrorIs(t, freed.Of("a").Member("three").Part().Resize(256<<10), membudget.ErrBusy)
	require.NoError(t, freed.Of("b").Part().Resize(1<<20), "without members a name holds its whole share")
}
