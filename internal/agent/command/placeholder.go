package command

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// placeholders are the names that a description may have in braces.
func placeholders() []string {
	return []string{
		"{dir}", "{instruction}", "{instruction_file}", "{model_url}", "{model_host}", "{max_tokens}",
		"{platform}", "{arch}",
	}
}

// placeholderPattern finds a lower-case name in braces that is no parameter of a shell, such as ${name}.
var placeholderPattern = regexp.MustCompile(`(?:^|[^$])(\{[a-z]+(?:[_-][a-z]+)*\})`)

// checkPlaceholders refuses unknown placeholders, which are most likely misspelled. Texts with spaces may
// be programs, whose braces mean something else.
func (s Spec) checkPlaceholders() error {
	values := map[string][]string{"command": s.Command, "check": s.Check, "env": slices.Collect(maps.Values(s.Env))}
	for _, field := range slices.Sorted(maps.Keys(values)) {
		for _, value := range values[field] {
			if strings.ContainsAny(value, " \t\n") {
				continue
			}

			for _, found := range placeholderPattern.FindAllStringSubmatch(value, -1) {
				if !slices.Contains(placeholders(), found[1]) {
					return fault.Field(field,
						"must have no placeholders but %s, got %s; write other braces with a space, such as { print }",
						strings.Join(placeholders(), ", "), found[1])
				}
			}
		}
	}

	return nil
}
