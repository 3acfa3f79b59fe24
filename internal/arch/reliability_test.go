package arch_test

import (
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// The page about failures names only tests that exist.
func TestReliabilityNamesTests(t *testing.T) {
	t.Parallel()

	defined := map[string]bool{}
	function := regexp.MustCompile(`(?m)^func (Test\w+)\(`)

	for _, file := range files(t, "*_test.go") {
		for _, found := range function.FindAllStringSubmatch(read(t, file), -1) {
			defined[found[1]] = true
		}
	}

	named := regexp.MustCompile("`(Test\\w+)`").FindAllStringSubmatch(read(t, "docs/reliability.md"), -1)
	require.Greater(t, len(named), 30, "the search for tests is blind")

	for _, test := range named {
		require.True(t, defined[test[1]], "docs/reliability.md names %s, which does not exist", test[1])
	}
}
