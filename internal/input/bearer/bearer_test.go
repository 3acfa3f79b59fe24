package bearer_test

import (
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/input/bearer"
)

func TestToken(t *testing.T) {
	t.Parallel()

	for header, want := range map[string]string{
		"Bearer abc":   "abc",
		"bearer  abc ": "abc",
		"abc":          "",
		"Basic abc":    "",
		"Bearer":       "",
		"":             "",
	} {
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set("Authorization", header)
		require.Equal(t, want, bearer.Token(r), header)
		require.Equal(t, want == "abc", bearer.Has(r, "other", "abc"), header)
		require.False(t, bearer.Has(r, "other", ""), header)
		require.False(t, bearer.Has(r), header)
	}
}
