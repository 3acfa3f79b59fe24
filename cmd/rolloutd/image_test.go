package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestImageBuildForE2B(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	code, out, errText := rolloutd(
		t.Context(),
		nil,
		"image",
		"build",
		"--e2b",
		"--from",
		"python:3.12-slim",
		dir,
		"myapp",
	)
	require.Zero(t, code, errText)
	require.Contains(
		t,
		out,
		`e2b template create myapp --path "`+dir+`" --dockerfile e2b.Dockerfile --cpu-count 2 --memory-mb 2048`,
	)
	text, err := os.ReadFile(filepath.Join(dir, "e2b.Dockerfile"))
	require.NoError(t, err)
	require.Contains(t, string(text), "FROM python:3.12-slim\n")

	for says, args := range map[string][]string{
		"--from needs --e2b": {dir, "myapp", "--from", "debian"},
		"no such file":       {"--e2b", dir, "myapp"},
		"lower-case":         {"--e2b", "--from", "debian", dir, "MyApp"},
	} {
		code, _, errText := rolloutd(t.Context(), nil, append([]string{"image", "build"}, args...)...)
		require.NotZero(t, code)
		require.Contains(t, errText, says)
	}
}
