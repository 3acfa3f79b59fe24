package grading_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/driver"
	"github.com/rolloutd/rolloutd/internal/driver/local"
	"github.com/rolloutd/rolloutd/internal/grading"
	"github.com/rolloutd/rolloutd/internal/image"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandbox"
	"github.com/rolloutd/rolloutd/internal/store"
)

// asRoot creates sandboxes of an image for agents that are root or another user in it.
type asRoot struct {
	backend *sandbox.Backend
	user    string
}

func (a asRoot) create(
	ctx context.Context,
	id, purpose string,
	changed ...string,
) (*sandbox.Sandbox, func(), error) {
	s := rollout.Sandbox{
		Image: "app", User: a.user, Workdir: "/app", GradePaths: []string{"/srv"}, ImageEnv: true, Changed: changed,
	}

	sb, err := a.backend.Create(ctx, id, s, map[string]string{driver.LabelPurpose: purpose})
	if err != nil {
		return nil, nil, err
	}

	return sb, func() {}, sb.PutTar(ctx, rollout.Home, grading.Folders(rollout.Workdir, rollout.AgentLogDir))
}

// Attach implements grading.Sandboxes.
func (a asRoot) Attach(ctx context.Context, id string) (*sandbox.Sandbox, func(), error) {
	sb, err := a.backend.Attach(ctx, id)
	return sb, func() {}, err
}

// CreateVerifier implements grading.Sandboxes.
func (a asRoot) CreateVerifier(
	ctx context.Context,
	t rollout.Target,
	s rollout.Sandbox,
) (*sandbox.Sandbox, func(), error) {
	return a.create(ctx, t.VerifierID(), driver.PurposeVerifier, s.Changed...)
}

// CreateControl implements grading.Sandboxes.
func (a asRoot) CreateControl(
	ctx context.Context,
	t rollout.Target,
	_ rollout.Sandbox,
) (*sandbox.Sandbox, func(), error) {
	return a.create(ctx, t.ControlID(), driver.PurposeVerifier)
}

// Destroy implements grading.Sandboxes.
func (a asRoot) Destroy(ctx context.Context, id string) error { return a.backend.Destroy(ctx, id) }

// rootImage returns a store with an image without programs of its own except a tool; bash comes from the host.
func rootImage(t *testing.T) *image.Store {
	t.Helper()

	return imageOf(t, map[string]string{
		"app/answer":   "41\n",
		"srv/rows":     "1\n",
		"usr/bin/tool": "#!/bin/bash\necho tool\n",
	})
}

// imageOf returns a store with an image of these files, which are programs.
func imageOf(t *testing.T, files map[string]string) *image.Store {
	t.Helper()

	folder := t.TempDir()
	for path, text := range files {
		full := filepath.Join(folder, path)
		require.NoError(t, os.MkdirAll(filepath.Dir(full), 0o755))
		require.NoError(t, os.WriteFile(full, []byte(text), 0o600))
		require.NoError(t, os.Chmod(full, 0o755))
		// owned by a user of the image
		if os.Geteuid() == 0 {
			require.NoError(t, errors.Join(os.Chown(full, 1001, 0), os.Chown(filepath.Dir(full), 1001, 0)))
		}
	}

	s, err := image.Open(image.Options{Dir: filepath.Join(t.TempDir(), "images")})
	require.NoError(t, err)
	_, err = s.Import(t.Context(), folder, "app")
	require.NoError(t, err)

	return s
}

// Changes by root of an image are graded in the paths that the task names. They change no program of the
// verifier, neither before grading nor while the work runs during grading.
func TestRootOfAnImageIsGraded(t *testing.T) {
	t.Parallel()

	if os.Geteuid() != 0 {
		t.Skip("only a worker that is root makes agents root of an image")
	}

	gradeInImage(t, rollout.UserRoot, `set -e
		[ $UID = 0 ]; read a < /app/answer; echo $((a+1)) > answer; echo 2 > /srv/rows; echo 3 > /srv/more
		echo 'echo cheated' > /usr/bin/tool; echo /app/evil.so > /etc/ld.so.preload; echo x > /usr/bin/cheat; echo 1 > /verifier/logs/reward.txt; echo x > /verifier/tests/cheat
		printf '#!/bin/bash\necho x > /usr/bin/tool; echo x > /usr/bin/late; echo x > /etc/ld.so.preload; echo 1 > /verifier/logs/reward.txt; echo x > /srv/late; echo $UID\n' > prog`,
		`[ "$(bash prog 2> /dev/null)" = 0 ] && [ -e /srv/late ]`)
}

// The same holds for a user of the image with the verifier's usual id who owns programs of the image.
func TestUserOfAnImageIsGraded(t *testing.T) {
	t.Parallel()

	if os.Geteuid() != 0 {
		t.Skip("only a worker that is root makes agents users of an image")
	}

	gradeInImage(t, "1001:0", `set -e
		[ $UID = 1001 ]; read a < /app/answer; echo $((a+1)) > answer; echo 2 > /srv/rows; echo 3 > /srv/more
		echo 'echo cheated' > /usr/bin/tool; echo x > /usr/bin/cheat; ! echo /app/evil.so > /etc/ld.so.preload
		! echo 1 > /verifier/logs/reward.txt; ! echo x > /verifier/tests/cheat
		printf '#!/bin/bash\necho x > /usr/bin/tool; echo x > /usr/bin/late; echo 1 > /verifier/logs/reward.txt; echo x > /srv/late; echo $UID\n' > prog`,
		`[ "$(bash prog 2> /dev/null)" = 1001 ] && [ -e /srv/late ]`)
}

// gradeInImage grades the work of the script with commands that all succeed if the script has not cheated.
func gradeInImage(t *testing.T, user, script, judge string) {
	t.Helper()
	record := gradeScript(t, user, rootImage(t), script,
		`read a < answer; [ "$a" = 42 ]`,
		`read a < /app/answer; [ "$a" = 42 ]`,
		`read a < /srv/rows; read b < /srv/more; [ "$a$b" = 23 ]`,
		`[ ! -e /usr/bin/cheat ] && [ ! -e /verifier/tests/cheat ] && [ ! -e /verifier/logs/reward.txt ]`,
		judge,
		`[ ! -e /usr/bin/late ] && [ ! -e /etc/ld.so.preload ] && [ ! -e /verifier/logs/reward.txt ] && [ "$(tool)" = tool ]`,
	)
	require.Contains(t, record.Grading.Unseen, "/usr/bin")
}

// gradeScript grades the work of the script with commands, which must all succeed.
func gradeScript(t *testing.T, user string, images *image.Store, script string, commands ...string) grading.Record {
	t.Helper()

	record := gradeWork(t, user, images, script, rollout.Verifier{Commands: commands})
	require.NotNil(t, record.Reward, record.Error)
	require.InDelta(t, 1, *record.Reward, 0, "%+v", record.Commands)

	return record
}

// gradeWork grades the work of the script.
func gradeWork(t *testing.T, user string, images *image.Store, script string, v rollout.Verifier) grading.Record {
	t.Helper()

	g, a := newImageGrader(t, user, images)

	return gradeAttempt(t, g, a, rollout.Target{RolloutID: "image-user", Attempt: 1}, script, v)
}

// newImageGrader returns a grader, and its sandboxes, which have the image and the user.
func newImageGrader(t *testing.T, user string, images *image.Store) (*grading.Grader, asRoot) {
	t.Helper()
	d, err := local.New(local.Options{
		Dir:          filepath.Join(t.TempDir(), "sandboxes"),
		SandboxdPath: sandboxdPath,
		Images:       images,
		BridgeDir:    t.TempDir(),
	})
	require.NoError(t, err)
	s, err := store.Open(t.Context(), t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })

	a := asRoot{user: user, backend: sandbox.New(d, sandbox.Options{Defaults: driver.Spec{
		MemoryMiB: 512, HomeMiB: 64, TmpMiB: 32, PIDs: 128, Lease: time.Hour, // no worker renews it
	}})}

	return &grading.Grader{Store: s, Sandboxes: a, Logger: slog.New(slog.DiscardHandler)}, a
}

// gradeAttempt grades the work of the script in the sandbox of an attempt; a later one begins in the work of the one before.
func gradeAttempt(t *testing.T, g *grading.Grader, a asRoot, target rollout.Target, script string, v rollout.Verifier) grading.Record {
	t.Helper()
	t.Cleanup(func() {
		for _, id := range []string{target.SandboxID(), target.VerifierID(), target.ControlID()} {
			require.NoError(t, a.backend.Destroy(context.Background(), id))
		}
	})
	sb, _, err := a.create(t.Context(), target.SandboxID(), driver.PurposeAgent)
	require.NoError(t, err)

	if target.Attempt > 1 {
		require.NoError(t, g.RestoreWork(t.Context(), sb, target, target.Attempt-1))
	}

	st, err := sandbox.RunCommand(t.Context(), sb, "agent", sandbox.BashCommand("-c", script),
		&sandbox.CommandBudget{Total: 5 * time.Minute})
	require.NoError(t, err)
	ended, err := sandbox.CommandResult(t.Context(), sb, script, st)
	require.NoError(t, err)
	require.Zero(t, st.ExitCode, "%+v", ended)

	record, err := g.Grade(t.Context(), grading.Job{
		Target:   target,
		Sandbox:  rollout.Sandbox{User: a.user},
		Verifier: v,
		Timeout:  10 * time.Minute,
	})
	require.NoError(t, err)

	return record
}
