package formats_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/trajectory/formats"
)

// A trace whose arrays exceed the bound is refused at once, without reading the rest.
func TestReadIsBounded(t *testing.T) {
	t.Parallel()

	const (
		line  = `{"turn":1,"prompt_token_ids":[1,2,3],"completion_token_ids":[4,5],"per_token_logps":[-0.5,-1]}` + "\n"
		bytes = 4*5 + 8*2
	)

	turns, err := formats.ReadArrays(strings.NewReader(strings.Repeat(line, 3)), 3*bytes)
	require.NoError(t, err)
	require.GreaterOrEqual(t, turns.Bytes(), int64(3*bytes))

	_, err = formats.ReadArrays(strings.NewReader(strings.Repeat(line, 3)+"not read"), 3*bytes-1)
	require.Equal(t, fault.Exhausted, fault.KindOf(err))
}
