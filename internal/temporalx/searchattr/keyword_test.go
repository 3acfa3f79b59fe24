package searchattr_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/temporalx/searchattr"
)

func TestKeywordFitsEveryStore(t *testing.T) {
	t.Parallel()

	for given, want := range map[string]string{
		"":                              "",
		"django__django-1":              "django__django-1",
		`it's "odd" \ ?`:                `it's "odd" \ ?`,
		"a\x00b\x00":                    "ab",
		strings.Repeat("x", 201):        strings.Repeat("x", 200),
		strings.Repeat("x", 199) + "日本": strings.Repeat("x", 199),
	} {
		require.Equal(t, want, searchattr.Keyword(given))
	}
}
