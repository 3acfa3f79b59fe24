package sandboxtest

import (
	"archive/tar"
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/driver"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/image/imagetest"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandbox"
	"github.com/rolloutd/rolloutd/internal/sandboxd/runas"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

// FillAppImage fills the folder with the root file system of Harness.AppImage: programs, and an application
// in /app with data in /srv/data.
func FillAppImage(folder string) error {
	err := errors.Join(imagetest.Fill(folder, imagetest.Programs()), imagetest.Glibc(folder))
	for path, text := range map[string]string{
		"app/main":      "original\n",
		"app/lib/part":  "part\n",
		"app/cache/old": "old\n",
		"srv/data/rows": "rows\n",
		"etc/hostname":  "app\n",

		"home/user/given": "home\n", "home/user/app/main": "below home\n", "tmp/given": "tmp\n", "tmp/x/main": "below tmp\n",
	} {
		full := filepath.Join(folder, path)
		err = errors.Join(
			err,
			os.MkdirAll(filepath.Dir(full), 0o755),
			os.WriteFile(full, []byte(text), 0o600),
			os.Chmod(full, 0o644),
		)
	}

	return errors.Join(
		err,
		os.Symlink("main", filepath.Join(folder, "app/same")),
		os.Symlink("/srv", filepath.Join(folder, "way")),
		linkApp(folder),
	)
}

// linkApp adds further paths of the application, and one of the system's programs.
func linkApp(folder string) error {
	return errors.Join(
		os.Symlink("app", filepath.Join(folder, "linked")),
		os.Symlink("/srv/../linked", filepath.Join(folder, "again")),
		os.Symlink("/usr", filepath.Join(folder, "system")),
	)
}

// imageTests are of what a task takes from its image.
func imageTests() map[string]func(*testing.T, Harness) {
	return map[string]func(*testing.T, Harness){
		"Workdir": imageWorkdir,
		"Graded":  imageGraded,
		"Home":    imageHome,
		"Refused": imageRefused,
		"Own":     imageOwn,
		"Env":     taskEnv,
	}
}

// Processes of agent and verifier have the task's variables. Those that name a folder of the agent's reach
// only the work.
func taskEnv(t *testing.T, h Harness) {
	if h.AppImage == "" {
		t.Skip("the driver takes nothing from an image")
	}

	env := map[string]string{"MODE": "it's\nodd", "DATA": "/home/user/workdir/data", "PS4": "$(x)"}

	for name, s := range map[string]rollout.Sandbox{
		"image": {Image: h.AppImage, Env: env}, "no image": {Env: env},
	} {
		const show = `printf '%s|' "$MODE" "$DATA"; env | grep -c '^PS4'`

		agent := h.placeOf(t, driver.PurposeAgent, s)
		require.Equal(t, "it's\nodd|/home/user/workdir/data|1\n", agent.Bash(show).Stdout, name)

		v := h.placeOf(t, driver.PurposeVerifier, s).User(wire.VerifierUser)
		require.Equal(t, "it's\nodd||0\n", v.Bash(show).Stdout, name)
		require.Equal(
			t,
			"it's\nodd|/home/user/workdir/data|\n",
			v.Bash(`run-as-agent bash -c 'printf "%s|" "$MODE" "$DATA"; echo'`).Stdout,
			name,
		)
	}
}

// appPlace is a sandbox of the image that graded folders are tried in.
func (h Harness) appPlace(t *testing.T, purpose string) *Place {
	t.Helper()

	if h.AppImage == "" {
		t.Skip("the driver takes nothing from an image")
	}

	return h.placeOf(t, purpose, rollout.Sandbox{
		Image:      h.AppImage,
		Workdir:    "/app",
		GradePaths: []string{"/srv/data", "/app/cache", "/new/place"},
	})
}

// placeOf is a sandbox that is asked for as a task asks for it.
func (h Harness) placeOf(t *testing.T, purpose string, s rollout.Sandbox) *Place {
	t.Helper()
	b := sandbox.New(h.Open(t), sandbox.Options{Defaults: small(driver.Spec{})})
	id := "test-" + rand.Text()

	t.Cleanup(func() { destroy(t, b, id) })
	made, err := b.Create(t.Context(), id, s, map[string]string{driver.LabelPurpose: purpose})
	require.NoError(t, err)

	return &Place{Sandbox: made, Backend: b, t: t}
}

// The workdir and the graded folders have what the image has there, belong to the agent, and show what is
// written to them under each of their names.
func imageWorkdir(t *testing.T, h Harness) {
	p := h.appPlace(t, driver.PurposeAgent)
	ran := p.Bash(
		`set -e; cd ~/workdir; cat main same lib/part; readlink same; stat -c %a . main; rm main; echo changed > main; cat /app/main /app/same
		echo new > /app/cache/new; cat ~/workdir/cache/old ~/workdir/cache/new; echo more >> /srv/data/more; cat /srv/data/rows /srv/data/more
		echo made > /new/place/x; pwd; cd /app; pwd -P`,
	)
	require.Zero(t, ran.ExitCode, ran.Stderr)
	require.Equal(
		t,
		"original\noriginal\npart\nmain\n755\n644\nchanged\nchanged\nold\nnew\nrows\nmore\n/home/user/workdir\n/app\n",
		ran.Stdout,
	)
	require.Equal(t, "/app\n", p.inWorkdir("pwd -P").Stdout, "the name that the image has for it")

	for _, script := range []string{
		"echo x > /srv/x", "echo x > /usr/bin/x", "echo x > /etc/x", "echo x > /new/x", "mv /app /app2",
	} {
		require.NotZero(t, p.Bash(script).ExitCode, script)
	}

	other := h.appPlace(t, driver.PurposeAgent)
	require.Equal(t, "original\n", other.Bash("cat /app/main; ls /new/place").Stdout, "of another sandbox")
}

// What the agent makes of its workdir and of the graded folders goes to another sandbox with its home, and
// nothing else does.
func imageGraded(t *testing.T, h Harness) {
	p := h.appPlace(t, driver.PurposeAgent)
	ran := p.Bash(
		`set -e; cd /app; rm main; echo changed > main; mkdir -m 700 new; ln -s /etc/passwd new/link; echo 1 > new/file; ln new/file new/hard
		echo 2 > cache/two; rm /srv/data/rows; echo 3 > /srv/data/three; echo 4 > /new/place/four; echo x > /tmp/y; echo h > ~/h`,
	)
	require.Zero(t, ran.ExitCode, ran.Stderr)
	require.NoError(t, p.KillAll(t.Context()))
	home, err := p.GetTar(t.Context(), wire.AgentHome)
	require.NoError(t, err)

	defer home.Close()

	v := h.appPlace(t, driver.PurposeVerifier)
	require.NoError(t, v.Restore(t.Context(), wire.AgentHome, home))
	ran = v.User(wire.VerifierUser).
		Bash(`cd /app; cat main new/file new/hard cache/old cache/two /srv/data/three /new/place/four ~user/h; readlink new/link
		stat -c %h new/file; ls /srv/data; ls /tmp; cat /home/user/workdir/main`)
	require.Equal(t, "changed\n1\n1\nold\n2\n3\n4\nh\n/etc/passwd\n2\nthree\ngiven\nx\nchanged\n", ran.Stdout, ran.Stderr)
	require.NotZero(t, v.Bash("echo x > /usr/bin/x").ExitCode)
	v.assertLinksOfWork(v.User(wire.VerifierUser))
	ran = v.User(wire.VerifierUser).
		Bash("cd /home/user/workdir && run-as-agent bash -c 'echo built > out; echo built > /srv/data/out' && cat /app/out /srv/data/out")
	require.Equal(t, "built\nbuilt\n", ran.Stdout, ran.Stderr)
}

// In an image of the verifier's own the work runs as in any other, and changes nothing of the image.
func imageOwn(t *testing.T, h Harness) {
	if h.AppImage == "" {
		t.Skip("the driver takes nothing from an image")
	}

	v := h.placeOf(t, driver.PurposeVerifier, rollout.Sandbox{
		Image: h.AppImage, GradePaths: []string{"/srv/data"}, Env: map[string]string{runas.OwnImage: "1"},
	}).User(wire.VerifierUser)

	ran := v.Bash("set -e; echo mine > /tests/mine; cat /verifier/tests/mine; run-as-agent bash -c 'cat /app/main; echo x > /srv/data/x; ! rm /app/main'")
	require.Zero(t, ran.ExitCode, ran.Stderr)
	require.Equal(t, "mine\noriginal\n", ran.Stdout)
}

// assertLinksOfWork checks that a verifier follows no link among the work's files, and that a program of the work does.
func (p *Place) assertLinksOfWork(verifier *Place) {
	p.t.Helper()

	if !p.separate() {
		return
	}

	ran := verifier.Bash("cd /app; run-as-agent cat same && readlink same && ! cat same")
	require.Equal(p.t, "changed\nmain\n", ran.Stdout, ran.Stderr)
	require.Contains(p.t, ran.Stderr, "Too many levels of symbolic links")
	require.Zero(p.t, ran.ExitCode)
}

// The home and /tmp have what the image has there, for the agent and beside the verifier. Each may be the workdir, or have
// it, and the image may reach it through links: then it goes to the verifier as the agent left it. A /tmp that is not graded is the image's for the verifier.
func imageHome(t *testing.T, h Harness) {
	for _, image := range []struct {
		rollout.Sandbox
		workdirs []string
	}{
		{
			rollout.Sandbox{Image: h.AppImage},
			[]string{"/app", "/linked", "/again", "/home/user", "/home/user/app", "/tmp", "/tmp/x"},
		},
		{rollout.Sandbox{Image: h.UsersImage, User: rollout.UserRoot}, []string{"/linked", "/home/user/app", "/tmp"}},
		{rollout.Sandbox{Image: h.UsersImage, User: rollout.UserOfImage}, []string{"/again", "/home/user", "/tmp/x"}},
	} {
		if image.Image == "" {
			continue
		}

		for _, workdir := range image.workdirs {
			s := image.Sandbox
			s.Workdir = workdir
			t.Run(s.User+workdir, func(t *testing.T) { h.homeOfImage(t, s) })
		}
	}
}

func (h Harness) homeOfImage(t *testing.T, s rollout.Sandbox) {
	p := h.placeOf(t, driver.PurposeAgent, s)
	require.NoError(t, p.PutTar(t.Context(), wire.AgentHome, archive(t,
		tar.Header{Name: "workdir/", Typeflag: tar.TypeDir, Mode: 0o755}, tar.Header{Name: "workdir/task"})))
	require.NoError(t, p.WriteFile(t.Context(), wire.AgentWorkdir+"/written", newText("written\n"), 0o644))

	ran := p.inWorkdir(`set -e; cat /home/user/given /home/user/app/main /tmp/given /tmp/x/main; stat -c %a /tmp
		ls task; cat written; mkdir new; echo made > new/made; cp new/made new/other; ln -s /etc/passwd new/link
		rm -f written main; echo changed > main; touch task; ! ls /home/user/workdir/workdir/main`)
	require.Zero(t, ran.ExitCode, ran.Stderr)
	require.Equal(t, "home\nbelow home\ntmp\nbelow tmp\n1777\ntask\nwritten\n", ran.Stdout)
	require.NoError(t, p.KillAll(t.Context()))

	home, err := p.GetHome(t.Context(), nil)
	require.NoError(t, err)

	defer home.Close()

	v := h.placeOf(t, driver.PurposeVerifier, s)
	require.NoError(t, v.Restore(t.Context(), wire.AgentHome, home))
	require.NoError(t, v.PutTar(t.Context(), wire.AgentHome, archive(t, tar.Header{Name: "workdir/", Typeflag: tar.TypeDir, Mode: 0o755})))

	ran = v.User(wire.VerifierUser).inWorkdir(`set -e; cat ` + s.Workdir + `/main new/made; ls new; ! ls written; stat -c %a /tmp
		echo mine > /tmp/mine; cat /home/user/given /tmp/given; run-as-agent bash -c 'cat main; echo built > built; ! rm -f /tmp/mine; ! chmod 777 /tmp'; cat built`)
	require.Zero(t, ran.ExitCode, ran.Stderr)
	require.Equal(t, "changed\nmade\nlink\nmade\nother\n1777\nhome\ntmp\nchanged\nbuilt\n", ran.Stdout)
}

// inWorkdir runs a script in the workdir.
func (p *Place) inWorkdir(script string) Ran {
	p.t.Helper()

	name := "bash-" + rand.Text()
	_, err := p.Start(p.t.Context(), name, sandbox.BashCommand("-c", script))
	require.NoError(p.t, err)

	return p.End(name)
}

// A graded folder that the image reaches through a link, a path that is not a folder, and a folder of the system, also as
// the workdir by a link, are refused before anything runs.
func imageRefused(t *testing.T, h Harness) {
	if h.AppImage == "" {
		t.Skip("the driver takes nothing from an image")
	}

	b := sandbox.New(h.Open(t), sandbox.Options{Defaults: small(driver.Spec{})})
	for want, s := range map[string]rollout.Sandbox{
		"grade_paths: /way is a link in the image":           {GradePaths: []string{"/way/data"}},
		"files do not go to the verifier; got /usr/x":        {Workdir: "/system/x"},
		"grade_paths: /app/same is a link in the image":      {GradePaths: []string{"/app/same"}},
		"grade_paths: /app/main of the image is not a fold":  {GradePaths: []string{"/app/main/x"}},
		"workdir: must be outside the folders of the system": {Workdir: "/usr/bin"},
	} {
		s.Image = h.AppImage
		_, err := b.Create(t.Context(), "refused-"+rand.Text(), s, nil)
		require.Equal(t, fault.Invalid, fault.KindOf(err), "%v", err)
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, b.Prepare(t.Context(), s), want)
	}
}
