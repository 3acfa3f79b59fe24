package membudget_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/input/membudget"
)

// A part takes shared memory when it grows and returns it when it shrinks; the first bytes of each part are free.
func TestPartGrowsAndShrinks(t *testing.T) {
	t.Parallel()

	m := membudget.New(1000, 100)
	one, two := m.Of("").Part(), m.Of("").Part()
	require.NoError(t, one.Resize(100))
	require.Zero(t, m.Used())
	require.NoError(t, one.Resize(900))
	require.EqualValues(t, 800, m.Used())
	require.ErrorIs(t, two.Resize(301), membudget.ErrBusy)
	require.NoError(t, two.Resize(300))
	require.ErrorIs(t, one.Resize(901), membudget.ErrBusy)
	require.EqualValues(t, 1000, m.Used(), "what did not fit left all as it was")
	require.NoError(t, one.Resize(50))
	require.NoError(t, two.Resize(1100))
	two.Release()
	two.Release()
	one.Release()
	require.Zero(t, m.Used())
	(*membudget.Part)(nil).Release()
}

// A weight multiplies the memory that bytes hold.
func TestWeight(t *testing.T) {
	t.Parallel()

	m := membudget.New(1<<20, 0)
	_, release, err := m.Of("").Weighing(4).Read(strings.NewReader(strings.Repeat("x", 4000)), 1<<20)
	require.NoError(t, err)
	require.EqualValues(t, 4*4096, m.Used())
	release()
	require.Zero(t, m.Used())
	_, _, err = m.Of("").Weighing(4).Read(strings.NewReader(strings.Repeat("x", 300_000)), 1<<20)
	require.ErrorIs(t, err, membudget.ErrBusy)
	require.Zero(t, m.Used())
}
