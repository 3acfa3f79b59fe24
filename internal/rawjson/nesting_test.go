package rawjson_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/rawjson"
)

func TestNestable(t *testing.T) {
	t.Parallel()

	nested := func(levels int) string { return strings.Repeat(`{"a":[`, levels/2) + strings.Repeat("]}", levels/2) }
	for raw, want := range map[string]bool{
		"":                             true,
		"7":                            true,
		`"` + strings.Repeat("[", 300): true, // an unterminated string
		`["` + strings.Repeat("[", 300) + `\"["]`: true,
		"[" + strings.Repeat("[],", 300) + "7]":   true,
		nested(256):                               true,
		nested(258):                               false,
		"[" + nested(256) + "]":                   false,
	} {
		require.Equal(t, want, rawjson.Nestable([]byte(raw)), raw)
	}
}
