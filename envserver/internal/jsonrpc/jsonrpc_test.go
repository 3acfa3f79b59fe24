package jsonrpc_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/envserver/internal/jsonrpc"
)

func TestResponseKeepsTextAsItIs(t *testing.T) {
	t.Parallel()

	out, err := jsonrpc.Response{ID: json.Number("1"), Result: "<é&>"}.MarshalJSON()
	require.NoError(t, err)
	require.Equal(t, `{"jsonrpc":"2.0","id":1,"result":"<é&>"}`, string(out))
}

// FuzzParse checks that every text is a request whose reply can be encoded, or an error with one of two codes.
func FuzzParse(f *testing.F) {
	for _, s := range []string{`{}`, `[]`, `{"jsonrpc":"2.0","method":"m","id":1,"params":{"x":NaN}}`, `{"jsonrpc":"2.0","method":"m","id":1e5}`, `{"jsonrpc":2,"method":[],"id":{}}`} {
		f.Add([]byte(s))
	}

	f.Fuzz(func(t *testing.T, data []byte) {
		r, bad := jsonrpc.Parse(data)
		if bad != nil {
			require.Contains(t, []int{jsonrpc.ParseError, jsonrpc.InvalidRequest}, bad.Code)
			_, err := jsonrpc.Response{Error: bad}.MarshalJSON()
			require.NoError(t, err)

			return
		}

		out, err := jsonrpc.Response{ID: r.ID}.MarshalJSON()
		require.NoError(t, err)
		require.True(t, json.Valid(out))
	})
}
