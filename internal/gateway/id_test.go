package gateway_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// A route id must be a valid name of a single folder.
func TestRouteIDs(t *testing.T) {
	t.Parallel()
	h := newHost(t)

	long := func(n int) string { return strings.Repeat("a", n) }
	for id, valid := range map[string]bool{
		"r1.1":          true,
		"r":             true,
		"7":             true,
		"R_-.":          false,
		"a-_Z9._.-":     true,
		"a.b.c":         true,
		"a.b.c.d":       false,
		"":              false,
		".":             false,
		"..":            false,
		".a":            false,
		"a.":            false,
		"a..b":          false,
		"a.b.":          false,
		"-a":            false,
		"_a":            false,
		"a/b":           false,
		`a\b`:           false,
		"a b":           false,
		"a\n":           false,
		"a\x00":         false,
		"é":             false,
		"a.é":           false,
		"%2e":           false,
		long(64):        true,
		long(65):        false,
		"a." + long(32): true,
		"a." + long(33): false,
		long(64) + "." + long(32) + "." + long(32): true,
	} {
		_, err := h.client.Status(t.Context(), id)
		require.Equal(t, valid, fault.Is(err, fault.NotFound), "%q: %v", id, err)
		require.Equal(t, !valid, fault.Is(err, fault.Invalid), "%q: %v", id, err)
	}

	r := h.route("http://127.0.0.1:1")
	r.ID = "../r"
	require.True(t, fault.Is(h.client.Open(t.Context(), r), fault.Invalid))
}
