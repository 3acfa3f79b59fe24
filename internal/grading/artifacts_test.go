package grading_test

import (
	"archive/tar"
	"bytes"
	"context"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/driver"
	"github.com/rolloutd/rolloutd/internal/driver/local"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/grading"
	"github.com/rolloutd/rolloutd/internal/image"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandbox"
	"github.com/rolloutd/rolloutd/internal/store"
)

// ofImages creates sandboxes as the grader asks for them.
type ofImages struct{ backend *sandbox.Backend }

func (o ofImages) create(ctx context.Context, id, purpose string, s rollout.Sandbox) (*sandbox.Sandbox, func(), error) {
	sb, err := o.backend.Create(ctx, id, s, map[string]string{driver.LabelPurpose: purpose})
	if err != nil {
		return nil, nil, err
	}

	return sb, func() {}, sb.PutTar(ctx, rollout.Home, grading.Folders(rollout.Workdir, rollout.AgentLogDir))
}

// Attach implements grading.Sandboxes.
func (o ofImages) Attach(ctx context.Context, id string) (*sandbox.Sandbox, func(), error) {
	sb, err := o.backend.Attach(ctx, id)
	return sb, func() {}, err
}

// CreateVerifier implements grading.Sandboxes.
func (o ofImages) CreateVerifier(
	ctx context.Context,
	t rollout.Target,
	s rollout.Sandbox,
) (*sandbox.Sandbox, func(), error) {
	return o.create(ctx, t.VerifierID(), driver.PurposeVerifier, s)
}

// CreateControl implements grading.Sandboxes.
func (o ofImages) CreateControl(
	ctx context.Context,
	t rollout.Target,
	s rollout.Sandbox,
) (*sandbox.Sandbox, func(), error) {
	return o.create(ctx, t.ControlID(), driver.PurposeVerifier, s)
}

// Destroy implements grading.Sandboxes.
func (o ofImages) Destroy(ctx context.Context, id string) error { return o.backend.Destroy(ctx, id) }

// importImage imports a folder with these files under a name.
func importImage(t *testing.T, s *image.Store, name string, files map[string]string) {
	t.Helper()

	folder := t.TempDir()
	require.NoError(t, os.Chmod(folder, 0o755))

	for path, text := range files {
		full := filepath.Join(folder, path)
		require.NoError(t, os.MkdirAll(filepath.Dir(full), 0o755))
		require.NoError(t, os.WriteFile(full, []byte(text), 0o755))
	}

	_, err := s.Import(t.Context(), folder, name)
	require.NoError(t, err)
}

// tarOf is a tar of entries.
func tarOf(t *testing.T, entries ...tar.Header) io.Reader {
	t.Helper()

	var buf bytes.Buffer

	w := tar.NewWriter(&buf)

	for _, h := range entries {
		h.Mode = 0o755
		require.NoError(t, w.WriteHeader(&h))
	}

	require.NoError(t, w.Close())

	return &buf
}

// A verifier with an image of its own gets the artifacts, whatever the agent puts at their paths: no link leads to the
// verifier's files, and nothing makes the grade null.
func TestArtifacts(t *testing.T) {
	t.Parallel()

	if os.Geteuid() != 0 {
		t.Skip("only a worker that is root makes agents root of an image")
	}

	images, err := image.Open(image.Options{Dir: filepath.Join(t.TempDir(), "images")})
	require.NoError(t, err)
	importImage(t, images, "app", map[string]string{"app/.keep": "", "data/.keep": "", "data/a/b/.keep": "", "data/.git/x/.keep": ""})
	importImage(t, images, "grader", map[string]string{
		"app/answer.txt": "old\n", "data/old": "old\n", "golden/answer": "42\n", "tests/made": "1\n", "tests/test.sh": "exit 9\n",
		"usr/bin/sh":    "#!/bin/bash\nexec bash \"$@\"\n",
		"usr/bin/judge": "#!/bin/bash\nread a < \"$1\"; read b < /golden/answer; [ \"$a\" = \"$b\" ]\n",
	})

	d, err := local.New(local.Options{
		Dir: filepath.Join(t.TempDir(), "sandboxes"), SandboxdPath: sandboxdPath, Images: images, BridgeDir: t.TempDir(),
	})
	require.NoError(t, err)

	s, err := store.Open(t.Context(), t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })

	boxes := ofImages{sandbox.New(d, sandbox.Options{Defaults: driver.Spec{
		MemoryMiB: 512, HomeMiB: 64, TmpMiB: 32, PIDs: 128, Lease: time.Hour, // no worker renews it
	}})}
	g := &grading.Grader{Store: s, Sandboxes: boxes, Logger: slog.New(slog.DiscardHandler)}

	const judge = `echo 0 > $VERIFIER_DIR/reward.txt; read a < %; read b < /golden/answer; ` +
		`[ "$a" = "$b" ] && [ ! -e /data/old ] && [ ! -e /app/other ] && [ ! -e /data/.git/x/y ] && ` +
		// the verifier may change its image, and the work may not
		`echo 1 > /golden/made && ! run-as-agent bash -c 'echo 2 > /golden/made' && ! run-as-agent bash -c 'echo > /usr/bin/judge' && ` +
		// with what it has made for its tests
		`run-as-agent bash -c '[ -e /golden/answer ] && [ ! -e /tests/made ]' && [ -e /tests/made ] && [ -e $TESTS_DIR/made ] && ` +
		// what a tool of the image runs there by a shell may change it too, and a program of the work begins in the same folder
		`cd /golden && sh -c 'echo 1 > built' && [ -e /golden/built ] && run-as-agent bash -c '[ -e answer ]' && ` +
		`read c < /golden/made && [ "$c" = 1 ] && judge /golden/answer && echo 1 > $VERIFIER_DIR/reward.txt`

	for name, c := range map[string]struct {
		agent, answer string
		put           []tar.Header
		collect       []rollout.CollectCommand
		exclude       []string
		status        rollout.GradingStatus
		reward        float64
		note          string
	}{
		"file":        {agent: "echo 42 > /app/answer.txt; echo 1 > /app/other", answer: "/app/answer.txt", reward: 1},
		"in a folder": {agent: "echo 42 > /data/data", answer: "/data/data", reward: 1, note: "/app/answer.txt"},
		"without the excluded": {
			agent: "cd /data; echo 42 > a/b/c.pyc; echo 42 > .git/x/y; echo 42 > data", answer: "/data/data",
			exclude: []string{"*.pyc", "a/b/d", ".git/", "old"}, reward: 1,
		},
		"the excluded": {agent: "echo 42 > /data/a/b/c.pyc", answer: "/data/a/b/c.pyc", exclude: []string{"a/b/*"}},
		"linked to the excluded": {
			put:    []tar.Header{{Name: "data/a/c", Typeflag: tar.TypeReg}, {Name: "data/d", Typeflag: tar.TypeLink, Linkname: "data/a/c"}},
			answer: "/data/d", exclude: []string{"c"},
		},
		"temporary":   {agent: "echo 42 > /tmp/answer", answer: "/tmp/answer", reward: 1},
		"in the home": {agent: "echo 42 > ~/workdir/answer", answer: "/home/user/workdir/answer", reward: 1},
		"collected": {
			agent:   "echo 42 > /app/other",
			collect: []rollout.CollectCommand{{Command: "no-such-program"}, {Command: "read a < /app/other; echo $a > /logs/artifacts/answer"}},
			answer:  "/logs/artifacts/answer", reward: 1,
			note: "verifier.collect[0] (no-such-program) ended with exit code 127: ",
		},
		"not declared":  {agent: "echo 42 > /tmp/other", answer: "/tmp/other"},
		"own":           {agent: "echo 41 > /tmp/answer", answer: "/golden/answer", reward: 1},
		"missing":       {agent: ":", answer: "/app/answer.txt", note: "/app/answer.txt"},
		"linked":        {put: []tar.Header{{Name: "app/answer.txt", Typeflag: tar.TypeSymlink, Linkname: "/golden/answer"}}, answer: "/app/answer.txt", note: "/app/answer.txt"},
		"linked inside": {put: []tar.Header{{Name: "data/x", Typeflag: tar.TypeSymlink, Linkname: "/golden/answer"}}, answer: "/data/x"},
		"linked folder": {put: []tar.Header{{Name: "data/x", Typeflag: tar.TypeSymlink, Linkname: "/golden"}}, answer: "/data/x/answer"},
		"of another kind": {
			put:    []tar.Header{{Name: "app/answer.txt", Typeflag: tar.TypeDir}},
			answer: "/app/answer.txt", status: rollout.FailedBySubmission,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			target := rollout.Target{RolloutID: strings.ReplaceAll(name, " ", "-"), Attempt: 1}

			t.Cleanup(func() {
				for _, id := range []string{target.SandboxID(), target.VerifierID(), target.ControlID()} {
					require.NoError(t, boxes.Destroy(context.Background(), id))
				}
			})

			spec := rollout.Sandbox{Image: "app", User: rollout.UserRoot, GradePaths: []string{rollout.PublishDir}}
			sb, _, err := boxes.create(t.Context(), target.SandboxID(), driver.PurposeAgent, spec)
			require.NoError(t, err)

			if c.put != nil {
				require.NoError(t, sb.PutTar(t.Context(), "/", tarOf(t, c.put...)))
			} else {
				st, err := sandbox.RunCommand(t.Context(), sb, "agent", sandbox.BashCommand("-c", c.agent),
					&sandbox.CommandBudget{Total: 5 * time.Minute})
				require.NoError(t, err)
				require.Zero(t, st.ExitCode)
			}

			record, err := g.Grade(t.Context(), grading.Job{
				Target: target, Sandbox: spec, Timeout: 5 * time.Minute,
				Verifier: rollout.Verifier{
					Script:  strings.ReplaceAll(judge, "%", c.answer),
					Image:   "grader",
					Collect: c.collect,
					Exclude: map[string][]string{"/data": c.exclude},
					Artifacts: []string{
						rollout.PublishDir, "/app/answer.txt", "/data", "/tmp/answer", "/home/user/workdir/answer",
					},
				},
			})
			require.NoError(t, err)
			require.NotNil(t, record.Reward, record.Error)
			require.InDelta(t, c.reward, *record.Reward, 0, "%+v", record)

			if c.status != "" {
				require.Equal(t, c.status, record.Grading.Status, "%+v", record.Grading)
			}

			if c.note != "" {
				require.Contains(t, strings.Join(record.Grading.Notes, "\n"), c.note)
			}
		})
	}
}

// What is left out is bounded too: a file with holes may claim any size.
func TestExcludedIsBounded(t *testing.T) {
	t.Parallel()

	var header bytes.Buffer

	w := tar.NewWriter(&header)
	require.NoError(t, w.WriteHeader(&tar.Header{Name: "src/c.pyc", Typeflag: tar.TypeReg, Mode: 0o600, Size: 1 << 50}))

	kept, err := grading.Exclude(&header, []string{"*.pyc"})
	require.NoError(t, err)

	_, err = io.ReadAll(kept)
	require.Equal(t, fault.OutOfDisk, fault.KindOf(err), err)
}
