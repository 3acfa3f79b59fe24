package arch_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const root = "../.."

var (
	namedTest = regexp.MustCompile("`((?:Test|Fuzz|Benchmark)[A-Z][A-Za-z0-9]*)")
	testFunc  = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark)[A-Za-z0-9]+)\(`)
	link      = regexp.MustCompile(`\]\(([^)#:\s]+)(?:#[^)]*)?\)`)
	anchor    = regexp.MustCompile(`\]\(([^)#:\s]*)#([^)\s]+)\)`)
	heading   = regexp.MustCompile(`(?m)^#+ (.+)$`)
	notInSlug = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
	goPath    = regexp.MustCompile("`((?:activities|cmd|envserver|internal|workflows)(?:/[a-z0-9_.-]+)*)/?`")
)

// Every test that a page names exists, so that readers can check each claim.
func TestNamedTestsExist(t *testing.T) {
	t.Parallel()

	tests := map[string]bool{}

	for _, file := range files(t, "*_test.go") {
		for _, found := range testFunc.FindAllStringSubmatch(read(t, file), -1) {
			tests[found[1]] = true
		}
	}

	named := 0

	for _, page := range files(t, "*.md") {
		for _, found := range namedTest.FindAllStringSubmatch(read(t, page), -1) {
			if named++; page != "CHANGELOG.md" && !tests[found[1]] {
				t.Errorf("%s: there is no test %s", page, found[1])
			}
		}
	}

	require.Greater(t, named, 50, "the search for tests is blind")
}

// Every file, folder and package that a page links or names exists.
func TestPlacesInPagesExist(t *testing.T) {
	t.Parallel()

	for _, page := range files(t, "*.md") {
		if page == "CHANGELOG.md" {
			continue
		}

		text := read(t, page)

		for _, found := range link.FindAllStringSubmatch(text, -1) {
			_, err := os.Stat(filepath.Join(root, filepath.Dir(page), found[1]))
			if err != nil {
				t.Errorf("%s links %s, which does not exist", page, found[1])
			}
		}

		for _, found := range goPath.FindAllStringSubmatch(text, -1) {
			_, err := os.Stat(filepath.Join(root, found[1]))
			if err != nil {
				t.Errorf("%s names %s, which does not exist", page, found[1])
			}
		}
	}
}

// Every section that a page links exists.
func TestLinkedSectionsExist(t *testing.T) {
	t.Parallel()

	for _, page := range files(t, "*.md") {
		for _, found := range anchor.FindAllStringSubmatch(read(t, page), -1) {
			target := page
			if found[1] != "" {
				target = filepath.Join(filepath.Dir(page), found[1])
			}

			if filepath.Ext(target) == ".md" && !sections(t, target)[found[2]] {
				t.Errorf("%s links %s#%s, which does not exist", page, target, found[2])
			}
		}
	}
}

// sections returns the names by which links reach the headings of a page, as GitHub makes them.
func sections(t *testing.T, page string) map[string]bool {
	t.Helper()

	names := map[string]bool{}

	for _, found := range heading.FindAllStringSubmatch(read(t, page), -1) {
		slug := notInSlug.ReplaceAllString(strings.ToLower(found[1]), "")
		names[strings.ReplaceAll(slug, " ", "-")] = true
	}

	return names
}

// files returns the paths of the repository's files that match a pattern, relative to its root.
func files(t *testing.T, pattern string) []string {
	t.Helper()

	cmd := exec.CommandContext(t.Context(), "git", "ls-files", "--cached", "--others", "--exclude-standard", pattern)
	cmd.Dir = root

	out, err := cmd.Output()
	require.NoError(t, err)

	found := strings.Fields(string(out))
	require.NotEmpty(t, found)

	return found
}

func read(t *testing.T, file string) string {
	t.Helper()

	text, err := os.ReadFile(filepath.Join(root, file))
	require.NoError(t, err)

	return string(text)
}
