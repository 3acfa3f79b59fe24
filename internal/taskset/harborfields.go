package taskset

import (
	"fmt"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"
)

// harborFields are the fields of Harbor 0.26 that have no meaning for a rollout here. Below metadata and task all describe
// the task to people.
var harborFields = []string{
	"schema_version", "version", "source", "metadata", "task",
	"artifacts.source", "artifacts.destination", "artifacts.exclude",
	"artifacts.service", "steps.artifacts", "steps.min_reward", "steps.verifier.environment.allow_internet",
}

// noteUnknown notes the fields that Harbor does not know. It ignores them, so they have no effect here either; but they may
// be misspelled, or of another program.
func (h *harborReader) noteUnknown(t *Task, meta toml.MetaData) {
	known := slices.Concat(harborFields, unsupported, inSteps(unsupportedInSteps))

	for _, key := range meta.Undecoded() {
		field := key.String()

		if slices.ContainsFunc(known, func(of string) bool { return isPart(field, of) || isPart(of, field) }) {
			continue
		}

		// once in all steps, and not again for its own fields
		known = append(known, field)
		t.Notes = append(t.Notes, fmt.Sprintf("%s: %s: is no field of Harbor 0.26 and has no effect", harborFile, field))
	}
}

// isPart reports whether a field is another one, or in it.
func isPart(field, of string) bool { return field == of || strings.HasPrefix(field, of+".") }

func inSteps(fields []string) []string {
	all := make([]string, len(fields))
	for n, field := range fields {
		all[n] = "steps." + field
	}

	return all
}
