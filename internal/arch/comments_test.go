package arch_test

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	// qualified is a name of another package, or the field of a variable.
	qualified = regexp.MustCompile(`(?:^|[^\w./"-])([Ss]ee )?([a-z][a-z0-9]*)\.([A-Z][A-Za-z0-9]*)`)
	comments  = regexp.MustCompile(`(?:^|\s)//.*\.[A-Z].*$`)
	word      = regexp.MustCompile(`^\w+`)
)

// Every name of another package in a comment exists, so that it does not lead into a package of the past.
func TestNamesInCommentsExist(t *testing.T) {
	t.Parallel()

	// the names that the module's packages declare, by the last name of the package
	packages := map[string]map[string]bool{}
	texts := map[string]string{}

	for _, file := range files(t, "*.go") {
		texts[file] = read(t, file)

		name := filepath.Base(filepath.Dir(file))
		if packages[name] == nil {
			packages[name] = map[string]bool{}
		}

		for line := range strings.Lines(texts[file]) {
			packages[name][declared(line)] = true
		}
	}

	for file, text := range texts {
		for line := range strings.Lines(text) {
			for _, found := range qualified.FindAllStringSubmatch(comment(line), -1) {
				see, pkg, name := found[1] != "", found[2], found[3]

				imported := strings.Contains(text, `/`+pkg+`"`) || strings.Contains(text, `"`+pkg+`"`)
				if packages[pkg] == nil && (imported || !see) {
					continue // another module's, or a variable
				}

				if !packages[pkg][name] {
					t.Errorf("%s: there is no %s.%s", file, pkg, name)
				}
			}
		}
	}
}

// declared returns the exported name that a line declares, alone or as a member; "": none.
func declared(line string) string {
	for _, keyword := range []string{"\t", "type ", "const ", "var ", "func "} {
		rest, ok := strings.CutPrefix(line, keyword)
		if !ok {
			continue
		}

		if strings.HasPrefix(rest, "(") {
			_, rest, _ = strings.Cut(rest, ") ")
		}

		if rest == "" || rest[0] < 'A' || rest[0] > 'Z' {
			return ""
		}

		return word.FindString(rest)
	}

	return ""
}

// comment returns the comment of a line; "": it has none that could name anything.
func comment(line string) string {
	if !strings.Contains(line, "//") || !strings.Contains(line, ".") {
		return ""
	}

	return comments.FindString(strings.TrimSuffix(line, "\n"))
}
