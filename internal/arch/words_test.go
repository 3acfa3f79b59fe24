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

// banned are words and phrases that make a reader decode a sentence. docs/glossary.md has the words to use instead.
var banned = []string{
	"takes in that", "'s to set", "is at work", "are at work", "is to blame", "whose doing", "comes to the same", "whatever the umask", "may strike", // sentences that are hard to parse
	"made anew", "asked anew", "is no try", "in a rush", "has better things", "the one who", "no matter to", "overburdened", // more of them
	"told", "lest", "nobody", "for ever", "what is no", "of which", // vague references
	"hear", "hears", "heard", "hearing", "ruling", "rulings", "verdict", "verdicts", "evidence", "courtroom", // court metaphors
	"heir", "heirs", "shelf", "shelves", "desk", "errand", "errands", "manners", "gulp", "gulps", "news", "leavings", "fruitless", "whoever", "those who", "in vain", "given out again", "comes to nothing", "came to nothing", // other metaphors
}

var bannedWords = regexp.MustCompile(`(?i)\b(` + strings.Join(banned, "|") + `)\b`)

// kept are lines with banned words that are names in protocols, in histories or of other programs.
var kept = []string{
	"DisableNewsFetch", // an option of the Temporal UI
	"nobody:x:65534",   // a line of /etc/passwd
}

var camelCase = regexp.MustCompile(`([a-z0-9])([A-Z])`)

func TestTextHasNoBannedWords(t *testing.T) {
	t.Parallel()
	// The expressions are slow under the race detector, so only a line with the letters of a banned phrase is matched against them.
	letters := strings.Split(strings.ReplaceAll(strings.Join(banned, "|"), " ", ""), "|")
	for _, file := range textFiles(t) {
		if file == "internal/arch/words_test.go" {
			continue
		}
		text, err := os.ReadFile(filepath.Join(root, file))
		require.NoError(t, err)
		for i, line := range strings.Split(string(text), "\n") {
			if !containsAny(strings.ReplaceAll(strings.ToLower(line), " ", ""), letters) {
				continue
			}
			word := bannedWords.FindString(camelCase.ReplaceAllString(line, "$1 $2"))
			if word != "" && !containsAny(line, kept) {
				t.Errorf("%s:%d: %q is a banned word (docs/glossary.md has the words to use): %s", file, i+1, word, strings.TrimSpace(line))
			}
		}
	}
}

const root = "../.."

// textFiles returns the paths of the text files of the repository, relative to its root.
func textFiles(t *testing.T) []string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", "ls-files", "--cached", "--others", "--exclude-standard")
	cmd.Dir = root
	out, err := cmd.Output()
	require.NoError(t, err)
	var files []string
	for _, file := range strings.Fields(string(out)) {
		switch filepath.Ext(file) {
		case ".go", ".md", ".yaml", ".yml", ".sh", ".js", ".html", ".css", ".py", "":
			files = append(files, file)
		}
	}
	require.NotEmpty(t, files)
	return files
}

func containsAny(line string, parts []string) bool {
	for _, part := range parts {
		if strings.Contains(line, part) {
			return true
		}
	}
	return false
}
