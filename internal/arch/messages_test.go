package arch_test

import (
	"go/scanner"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// wantForm is the form of a message such as "port: want a number", which says "port: must be a number" instead.
var wantForm = regexp.MustCompile(`(^|[:;,] )want `)

func TestMessagesSayWhatMustBe(t *testing.T) {
	t.Parallel()
	for _, file := range textFiles(t) {
		if filepath.Ext(file) != ".go" || strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(root, file))
		require.NoError(t, err)
		for at, literal := range literals(text) {
			if wantForm.MatchString(literal) {
				t.Errorf("%s:%d: %q: say what the value must be, and what it is (\"must be X, got Y\")", file, at.Line, literal)
			}
		}
	}
}

// literals returns the string literals of a Go file by their places.
func literals(text []byte) map[token.Position]string {
	var s scanner.Scanner
	file := token.NewFileSet().AddFile("", -1, len(text))
	s.Init(file, text, nil, 0)
	found := map[token.Position]string{}
	for pos, tok, lit := s.Scan(); tok != token.EOF; pos, tok, lit = s.Scan() {
		if value, err := strconv.Unquote(lit); tok == token.STRING && err == nil {
			found[file.Position(pos)] = value
		}
	}
	return found
}
