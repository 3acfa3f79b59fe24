package image

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// TemplateFile is the name of a template's definition. E2B's command line looks for it.
const TemplateFile = "e2b.Dockerfile"

// templateHeader begins each definition that Write has written. Write overwrites such files only.
const templateHeader = "# Written by `rolloutd image build --e2b`."

// templateNeeds installs the programs that sandboxes and agents need. sandboxd is uploaded later.
const templateNeeds = `
# What sandboxes of rolloutd and their agents call.
USER root
RUN apt-get update && apt-get install -y --no-install-recommends bash ca-certificates git python3 ripgrep && rm -rf /var/lib/apt/lists/*
`

// Template is a template of E2B's machines.
type Template struct {
	// the build context, which gets the definition
	Folder string

	// path below Folder; unused with From
	Dockerfile string

	// an image instead of a Dockerfile
	From string

	// name of the template
	Name string
}

var (
	templateName = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,127}$`)
	// A line of a script in a RUN may begin with FROM, but rarely matches to its end.
	fromLine   = regexp.MustCompile(`(?mi)^[ \t]*FROM[ \t]+(--\S+[ \t]+)?\S+([ \t]+AS[ \t]+\S+)?[ \t]*\r?$`)
	copiesFrom = regexp.MustCompile(`(?mi)^[ \t]*COPY[ \t]+(--\S+[ \t]+)*--from=`)
	imageName  = regexp.MustCompile(`^\S+$`)
)

// Write writes the definition and returns its path. The error is a fault.Invalid if E2B cannot build the Dockerfile.
func (t Template) Write() (string, error) {
	if !templateName.MatchString(t.Name) {
		return "", fault.New(fault.Invalid,
			"the name of the template must be at most 128 lower-case letters, digits, '-' and '_', beginning with a letter or digit, got %q",
			t.Name)
	}

	text, err := t.source()
	if err != nil {
		return "", err
	}

	path := filepath.Join(t.Folder, TemplateFile)

	old, err := os.ReadFile(path)
	if err == nil && !strings.HasPrefix(string(old), templateHeader) {
		return "", fault.New(fault.Invalid, "%s was not written by rolloutd: rename it, and name it with --file", path)
	}

	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fault.Wrap(fault.Invalid, err, "read the old definition")
	}

	err = os.WriteFile(path, []byte(templateHeader+"\n"+strings.TrimRight(text, "\n")+"\n"+templateNeeds), 0o644)

	return path, fault.Wrap(fault.Invalid, err, "write the definition")
}

// source is the Dockerfile that the definition begins with.
func (t Template) source() (string, error) {
	if t.From != "" {
		if !imageName.MatchString(t.From) {
			return "", fault.New(fault.Invalid, "the name of an image must not have spaces, got %q", t.From)
		}

		return fmt.Sprintf("FROM %s\n", t.From), nil
	}

	path := filepath.Join(t.Folder, t.Dockerfile)

	text, err := os.ReadFile(path)
	if err != nil {
		return "", fault.Wrap(fault.NotFound, err, "build")
	}

	const instead = "build and push the image elsewhere, and use --from IMAGE"

	switch stages := len(fromLine.FindAll(text, -1)); {
	case stages == 0:
		return "", fault.New(fault.Invalid, "%s has no FROM", path)
	case stages > 1:
		return "", fault.New(fault.Invalid, "%s has %d stages, and E2B builds one: %s", path, stages, instead)
	case copiesFrom.Match(text):
		return "", fault.New(fault.Invalid, "%s has COPY --from, which E2B does not know: %s", path, instead)
	}

	return string(text), nil
}
