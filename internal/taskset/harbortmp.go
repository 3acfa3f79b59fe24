package taskset

import (
	"regexp"
	"slices"
	"strings"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

// temporary finds the first part of a path below the folder for temporary files, which is not that of /var/tmp.
var temporary = regexp.MustCompile(`(?:^|[^\w.-])` + rollout.TmpDir + `/([\w.-]*\w)`)

// gradeTemporary has the folder for temporary files graded if a task's work is there: its instruction and its tests name
// the same file or folder. Otherwise it is the verifier's own, and nothing that the agent leaves there can mislead it.
func gradeTemporary(t *Task) {
	if t.Sandbox["image"] == nil || t.Verifier != nil {
		return
	}

	graded := sameTemporary(t.Instruction, t.TestScript, t.TestFiles)
	for _, s := range t.Steps {
		graded = graded || sameTemporary(s.Instruction, s.TestScript, s.TestFiles)
	}

	if graded {
		gradeFolder(t, rollout.TmpDir)
	}
}

// gradePublished has rollout.PublishDir graded if a task's instruction and its tests name it. Otherwise tests that write
// there have it for themselves.
func gradePublished(t *Task) {
	if t.Sandbox["image"] == nil || t.Verifier != nil {
		return
	}

	graded := samePublished(t.Instruction, t.TestScript, t.TestFiles)
	for _, s := range t.Steps {
		graded = graded || samePublished(s.Instruction, s.TestScript, s.TestFiles)
	}

	if graded {
		gradeFolder(t, rollout.PublishDir)
	}
}

func samePublished(instruction, script string, files map[string]string) bool {
	if !strings.Contains(instruction, rollout.PublishDir) {
		return false
	}

	return strings.Contains(script, rollout.PublishDir) ||
		slices.ContainsFunc(sortedKeys(files), func(name string) bool { return strings.Contains(files[name], rollout.PublishDir) })
}

func gradeFolder(t *Task, folder string) {
	graded, _ := t.Sandbox["grade_paths"].([]string)
	t.Sandbox["grade_paths"] = append(graded, folder)
}

func sameTemporary(instruction, script string, files map[string]string) bool {
	asked := temporaryIn(instruction)
	inTests := func(text string) bool {
		return slices.ContainsFunc(temporaryIn(text), func(name string) bool { return slices.Contains(asked, name) })
	}

	return inTests(script) || slices.ContainsFunc(sortedKeys(files), func(name string) bool { return inTests(files[name]) })
}

// temporaryIn returns the names that a text has below the folder for temporary files.
func temporaryIn(text string) []string {
	var names []string
	for _, found := range temporary.FindAllStringSubmatch(text, -1) {
		names = append(names, found[1])
	}

	return names
}
