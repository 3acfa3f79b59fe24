package taskset

import (
	"regexp"
	"slices"
	"strings"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

// temporary finds the first part of a path below the folder for temporary files, which is not that of /var/tmp.
var temporary = regexp.MustCompile(`(?:^|[^\w.-])` + rollout.TmpDir + `/([\w.-]*\w)`)

// gradeOutside has folders graded in which a task's work is: its instruction and its tests name the same there. Otherwise such
// a folder is the verifier's own, and nothing that the agent leaves there can mislead it.
func gradeOutside(t *Task) {
	if t.Sandbox["image"] == nil || t.Verifier != nil {
		return
	}

	var graded []string

	for _, f := range []struct {
		folder  string
		namedIn func(text string) []string
	}{{rollout.TmpDir, temporaryIn}, {rollout.PublishDir, publishedIn}} {
		named := sharesName(f.namedIn, t.Instruction, t.TestScript, t.TestFiles)
		for _, s := range t.Steps {
			named = named || sharesName(f.namedIn, s.Instruction, s.TestScript, s.TestFiles)
		}

		if named {
			graded = append(graded, f.folder)
		}
	}

	if len(graded) > 0 {
		t.Sandbox["grade_paths"] = graded
	}
}

// sharesName reports whether the instruction and the tests name the same.
func sharesName(namedIn func(text string) []string, instruction, script string, files map[string]string) bool {
	asked := namedIn(instruction)
	inTests := func(text string) bool {
		return slices.ContainsFunc(namedIn(text), func(name string) bool { return slices.Contains(asked, name) })
	}

	return inTests(script) || slices.ContainsFunc(sortedKeys(files), func(name string) bool { return inTests(files[name]) })
}

// publishedIn returns rollout.PublishDir if a text names it.
func publishedIn(text string) []string {
	if strings.Contains(text, rollout.PublishDir) {
		return []string{rollout.PublishDir}
	}

	return nil
}

// temporaryIn returns the names that a text has below the folder for temporary files.
func temporaryIn(text string) []string {
	var names []string
	for _, found := range temporary.FindAllStringSubmatch(text, -1) {
		names = append(names, found[1])
	}

	return names
}
