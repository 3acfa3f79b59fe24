package taskset

import (
	"regexp"
	"slices"
	"strings"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

// temporary finds the first part of a path below the folder for temporary files, which is not that of /var/tmp.
var temporary = regexp.MustCompile(`(?:^|[^\w.-])` + rollout.TmpDir + `/([\w.-]*\w)`)

// gradeOutside has folders graded in which a task's work is. Otherwise such a folder is the verifier's own, and nothing that
// the agent leaves there can mislead it.
func (h *harborReader) gradeOutside(t *Task) {
	if t.Sandbox["image"] == nil {
		return
	}

	var graded []string

	if t.Verifier == nil && sharesTemporary(t) {
		graded = append(graded, rollout.TmpDir)
	}

	for _, folder := range []string{rollout.PublishDir, rollout.LogDir} {
		// a verifier with an image of its own gets the first without being told
		if h.asksFor(folder) || folder == rollout.PublishDir && t.Verifier != nil {
			graded = append(graded, folder)
		}
	}

	if len(graded) > 0 {
		t.Sandbox["grade_paths"] = graded
	}

	h.noteLogs(t)
}

// asksFor reports whether an instruction or a solution names a folder.
func (h *harborReader) asksFor(folder string) bool {
	return slices.ContainsFunc(h.asked, func(text string) bool { return strings.Contains(text, folder) })
}

// noteLogs notes what a task expects in folders of Harbor that have something else here.
func (h *harborReader) noteLogs(t *Task) {
	if h.asksFor(verifierLogs) {
		t.Notes = append(t.Notes, "the instruction or the solution names "+verifierLogs+
			": only the tests have it here, so that what the agent would leave there does not count")
	}

	if t.Verifier != nil || h.asksFor(rollout.LogDir) {
		return
	}

	if anyText(t.TestScript, t.TestFiles, namesLogs) ||
		slices.ContainsFunc(t.Steps, func(s Step) bool { return anyText(s.TestScript, s.TestFiles, namesLogs) }) {
		t.Notes = append(t.Notes, "the tests name "+rollout.LogDir+
			", which is empty here: logs of an agent and its trajectory.json are no part of its work")
	}
}

func namesLogs(text string) bool { return strings.Contains(text, rollout.LogDir) }

// verifierLogs is where tests write the reward.
const verifierLogs = "/logs/verifier"

// sharesTemporary reports whether an instruction and its tests name the same below the folder for temporary files.
func sharesTemporary(t *Task) bool {
	if sharesName(t.Instruction, t.TestScript, t.TestFiles) {
		return true
	}

	return slices.ContainsFunc(t.Steps, func(s Step) bool { return sharesName(s.Instruction, s.TestScript, s.TestFiles) })
}

// sharesName reports whether the instruction and the tests name the same below that folder.
func sharesName(instruction, script string, files map[string]string) bool {
	asked := temporaryIn(instruction)

	return anyText(script, files, func(text string) bool {
		return slices.ContainsFunc(temporaryIn(text), func(name string) bool { return slices.Contains(asked, name) })
	})
}

// anyText reports whether something holds for the text of a test script or of a file of the tests.
func anyText(script string, files map[string]string, holds func(text string) bool) bool {
	return holds(script) || slices.ContainsFunc(sortedKeys(files), func(name string) bool { return holds(files[name]) })
}

// temporaryIn returns the names that a text has below the folder for temporary files.
func temporaryIn(text string) []string {
	var names []string
	for _, found := range temporary.FindAllStringSubmatch(text, -1) {
		names = append(names, found[1])
	}

	return names
}
