package grading

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"

	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/text"
)

const (
	// maxLacks bounds the lines that are quoted, maxLackLine each of them, in bytes.
	maxLacks    = 3
	maxLackLine = 160

	// maxScannedLine is the longest line that is looked at: a message is short.
	maxScannedLine = 2000
)

// lacks are what tests write about something that grading does not give them, or that the image lacks. The programs
// that they start write such lines too, which a shell without a stand-in does not notice.
var lacks = []struct {
	what string
	line *regexp.Regexp
}{
	{"grading reaches no network", regexp.MustCompile(
		`(?i)could not resolve (?:host|proxy)|name resolution|temporary failure resolving|name or service not known|` +
			`network is unreachable|\b(?:ENOTFOUND|EAI_AGAIN|ENETUNREACH)\b|no such host|failed to lookup address|dns error|UnknownHostException`,
	)},
	{"the image has no such browser", regexp.MustCompile(
		`Executable doesn't exist at|playwright install|cannot find Chrome binary|Could not find Chrom(?:e|ium)|Browser was not found`,
	)},
	{"the image has no such program", regexp.MustCompile(
		`: command not found$|^(?:\S*/)?(?:ba|da|)sh: (?:line )?[0-9]+: [^ /]+: not found$|^run-as-agent: argv: no program "|` +
			`No such file or directory: '[^'/]+'$|\bspawn [^ /]+ ENOENT\b|executable file not found in \$PATH|` +
			`env: ['‘]?[^'’ /]+['’]?: No such file or directory$`,
	)},
}

// lackLines are the first lines of an output that are about something missing, each with what it means. The work may
// have printed them.
func lackLines(output []byte) []string {
	var found []string

	for line := range bytes.Lines(output) {
		if len(found) == maxLacks {
			break
		}

		line = bytes.TrimSpace(line)
		if len(line) > maxScannedLine {
			continue
		}

		for _, l := range lacks {
			if l.line.Match(line) {
				note := fmt.Sprintf("the tests wrote %q: %s", text.HeadUTF8(string(line), maxLackLine), l.what)
				if !slices.Contains(found, note) {
					found = append(found, note)
				}

				break
			}
		}
	}

	return found
}

// noteLacks notes what the verifier said about something missing, if the work has not earned the full reward. It is for
// people, and changes no grade.
func (r *Record) noteLacks(v rollout.Verifier) {
	if _, most := v.Expected(); r.Reward != nil && *r.Reward >= most {
		return
	}

	found := r.lacks

	for _, c := range r.Commands {
		if c.ExitCode != 0 {
			found = append(found, lackLines([]byte(c.Stdout+"\n"+c.Stderr))...)
		}
	}

	r.Grading.Notes = append(r.Grading.Notes, found[:min(len(found), maxLacks)]...)
}
