package image_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/image"
	"github.com/rolloutd/rolloutd/internal/testkit/jsclient"
)

// E2B's own client parses the generated definition as intended.
func TestTemplateIsReadByTheOfficialClient(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(
		t,
		dir,
		"Dockerfile",
		"FROM python:3.12-slim AS base\nENV A=b\nRUN python3 -c 'print(1)' && \\\n    echo from here\nWORKDIR /app\nUSER app\n",
	)
	path, err := image.Template{Folder: dir, Dockerfile: "Dockerfile", Name: "swe-1"}.Write()
	require.NoError(t, err)
	require.Equal(t, filepath.Join(dir, "e2b.Dockerfile"), path)
	jsclient.Run(t, jsclient.E2B, "testdata/template.mjs", path, "python:3.12-slim")

	path, err = image.Template{Folder: dir, From: "debian:stable-slim", Name: "swe-1"}.Write()
	require.NoError(t, err, "a definition of ours is written again")
	jsclient.Run(t, jsclient.E2B, "testdata/template.mjs", path, "debian:stable-slim")
}

func TestTemplatesThatE2BCannotBuild(t *testing.T) {
	t.Parallel()

	for name, c := range map[string]struct{ dockerfile, name, says string }{
		"several stages":      {"FROM golang:1 AS a\nRUN true\nfrom debian\nCOPY --from=a /x /x\n", "a", "has 2 stages"},
		"copy of other image": {"FROM debian\nCOPY --chmod=755 --from=busybox /bin/sh /x\n", "a", "COPY --from"},
		"no base":             {"RUN python3 -c '\\\nfrom os import path'\n", "a", "has no FROM"},
		"name":                {"FROM debian\n", "Upper", "lower-case"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			write(t, dir, "Dockerfile", c.dockerfile)
			_, err := image.Template{Folder: dir, Dockerfile: "Dockerfile", Name: c.name}.Write()
			require.Equal(t, fault.Invalid, fault.KindOf(err), "%v", err)
			require.ErrorContains(t, err, c.says)
			require.NoFileExists(t, filepath.Join(dir, image.TemplateFile))
		})
	}
}

// A definition that another author wrote is not overwritten.
func TestTemplateOfOthers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, image.TemplateFile, "FROM debian\n")
	_, err := image.Template{Folder: dir, From: "debian", Name: "a"}.Write()
	require.ErrorContains(t, err, "was not written by rolloutd")
	text, err := os.ReadFile(filepath.Join(dir, image.TemplateFile))
	require.NoError(t, err)
	require.Equal(t, "FROM debian\n", string(text))

	_, err = image.Template{Folder: dir, Dockerfile: "missing", Name: "a"}.Write()
	require.Equal(t, fault.NotFound, fault.KindOf(err))
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
}
