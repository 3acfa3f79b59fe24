package arch_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	testNamed = regexp.MustCompile("`((?:Test|Fuzz|Benchmark)[A-Z][A-Za-z0-9]*)")
	testFunc  = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark)[A-Za-z0-9]+)\(`)
)

// Every test that a page names exists, so that readers can check each claim.
func TestNamedTestsExist(t *testing.T) {
	t.Parallel()
	there, pages := map[string]bool{}, map[string]string{}
	for _, file := range textFiles(t) {
		text, err := os.ReadFile(filepath.Join(root, file))
		require.NoError(t, err)
		switch {
		case strings.HasSuffix(file, "_test.go"):
			for _, found := range testFunc.FindAllSubmatch(text, -1) {
				there[string(found[1])] = true
			}
		case strings.HasPrefix(file, "docs/") && filepath.Ext(file) == ".md":
			pages[file] = string(text)
		}
	}
	require.NotEmpty(t, pages)
	for file, text := range pages {
		for _, found := range testNamed.FindAllStringSubmatch(text, -1) {
			if !there[found[1]] {
				t.Errorf("%s: there is no test %s", file, found[1])
			}
		}
	}
}
