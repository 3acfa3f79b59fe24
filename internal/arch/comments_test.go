package arch_test

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	comment = regexp.MustCompile(`(?m)(?:^|\s)//.*$`)
	// qualified is a name of another package, or the field of a variable.
	qualified = regexp.MustCompile(`(?:^|[^\w./"-])([Ss]ee )?([a-z][a-z0-9]*)\.([A-Z][A-Za-z0-9]*)`)
)

// Every name of another package in a comment exists, so that it does not lead into a package of the past.
func TestNamesInCommentsExist(t *testing.T) {
	t.Parallel()

	// the texts of the module's packages, by their last name
	packages := map[string]string{}
	sources := files(t, "*.go")

	for _, file := range sources {
		name := filepath.Base(filepath.Dir(file))
		packages[name] += read(t, file)
	}

	for _, file := range sources {
		text := read(t, file)

		for _, found := range qualified.FindAllStringSubmatch(strings.Join(comment.FindAllString(text, -1), "\n"), -1) {
			see, pkg, name := found[1] != "", found[2], found[3]

			imported := strings.Contains(text, `/`+pkg+`"`) || strings.Contains(text, `"`+pkg+`"`)
			if packages[pkg] == "" && (imported || !see) {
				continue // another module's, or a variable
			}

			if !regexp.MustCompile(`(?m)^(func (\([^)]*\) )?|type |const |var |\t)` + name + `\b`).MatchString(packages[pkg]) {
				t.Errorf("%s: there is no %s.%s", file, pkg, name)
			}
		}
	}
}
