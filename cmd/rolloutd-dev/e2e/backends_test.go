package e2e

import (
	"errors"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/driver/docker/dockertest"
	"github.com/rolloutd/rolloutd/internal/driver/e2b/e2btest"
	"github.com/rolloutd/rolloutd/internal/image/imagetest"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandbox/sandboxtest"
	"github.com/rolloutd/rolloutd/internal/taskset"
)

const everywhereScript = `
- match: sort the words
  hermes: true
  turns:
    - tool_calls:
        - {name: terminal, arguments: {command: "pwd; id -un; ls; cat words.txt"}}
        - {name: terminal, arguments: {command: "sort words.txt > sorted.txt; cat sorted.txt; cat nothing; exit 3"}}
    - tool_calls: [{name: terminal, arguments: {command: "echo 'wc -l < sorted.txt' > count.sh; bash count.sh; env | grep -c FROM_IMAGE"}}]
    - text: Done.
`

// opencodeScript plays the same task with OpenCode's tools.
const opencodeScript = `
- match: put the words in order
  turns:
    - tool_calls: [{name: read, arguments: {filePath: /home/user/workdir/words.txt}}]
    - tool_calls: [{name: bash, arguments: {command: "pwd; id -un; sort words.txt > sorted.txt; cat sorted.txt; exit 3", description: "Sort"}}]
    - tool_calls: [{name: grep, arguments: {pattern: "f.g"}}]
    - tool_calls: [{name: write, arguments: {filePath: /home/user/workdir/count.sh, content: "wc -l < sorted.txt\n"}}]
    - text: Done.
`

// appScript plays an agent that changes its workdir and another folder of its image.
const appScript = `
- match: change the application
  hermes: true
  turns:
    - tool_calls:
        - {name: terminal, arguments: {command: "pwd; ls; cat main; rm main; echo changed > main; mkdir -m 700 own; echo 1 > own/file"}}
        - {name: terminal, arguments: {command: "cat /srv/data/rows; rm /srv/data/rows; echo 2 > /srv/data/two; (echo x > /srv/x; echo x > /usr/bin/x) 2> /dev/null || ls /app"}}
    - text: Done.
`

// installScript plays an agent that is root in its image. The agent installs a program and system files, changes users, and
// runs the program to write a file in its workdir.
const installScript = `
- match: install the tool
  hermes: true
  turns:
    - tool_calls: [{name: terminal, arguments: {command: "id -u; pwd; ls; tool"}}]
    - tool_calls: [{name: terminal, arguments: {command: "printf '#!/bin/bash\necho made by $UID\n' > /usr/bin/tool; chmod 755 /usr/bin/tool; mkdir -p /var/lib/tool; echo conf > /etc/tool.conf; chown 33:33 /var/lib/tool; stat -c %u /var/lib/tool; tool"}}]
    - tool_calls: [{name: terminal, arguments: {command: "tool > out.txt; setpriv --reuid=33 --regid=33 --clear-groups tool >> out.txt; echo x > /srv/data/made; rm /etc/hostname; echo 1 > /verifier/logs/reward.txt; cat out.txt"}}]
    - text: Done.
`

func outcomeIn(t *testing.T, url string, task, sandbox args) outcome {
	t.Helper()

	a := args{"sandbox": sandbox, "endpoint": "scripted"}
	maps.Copy(a, task)

	return outcomeOf(t, runRollout(t, url, a))
}

// A task file has the same outcome, reward, test results, files and trajectory in the host's root file
// system, in an OCI image, in a container and in a machine of E2B. A task that uses folders of its image
// has the same results in an OCI image and in a container.
func TestOneTaskOnAllBackends(t *testing.T) {
	t.Parallel()
	engine, machines := dockertest.ForTest(t), e2btest.ForTest(t)
	folder := t.TempDir()
	require.NoError(
		t,
		errors.Join(sandboxtest.FillAppImage(folder), imagetest.Fill(folder, []string{"rg"}), machines.Programs("rg")),
	)
	require.NoError(t, engine.Import(t.Context(), folder, "app:1", ""))
	srv := startDev(t, devOptions{
		script: everywhereScript + opencodeScript + appScript,
		env:    append(machineEnv(machines), "DOCKER_HOST="+engine.Socket),
		flags:  []string{"--config", configFile(t, "sandbox:\n  backends: {local: {}, docker: {}, e2b: {}}\n")},
	})
	out, err := exec.CommandContext(t.Context(), filepath.Join(bin, "rolloutd"), "image", "import", "--data", srv.data, folder, "app:1").
		CombinedOutput()
	require.NoError(t, err, "%s", out)

	f, err := os.Open("testdata/everywhere.yaml")
	require.NoError(t, err)

	defer f.Close()

	read, err := taskset.ReadYAML(f)
	require.NoError(t, err)

	task := args(read.Arguments())
	want := sameEverywhere(t, srv.url, task, func(o outcome) outcome { return o })
	require.Len(t, want.Turns, 3)

	task["agent"], task["instruction"] = "opencode", "put the words in order"
	want = sameEverywhere(t, srv.url, task, outcome.withoutTimes)
	require.Len(t, want.Turns, 5)

	task = args{
		"instruction": "change the application", "agent": "react",
		"verify": []string{
			`test "$(cat main /app/main own/file)" = "$(printf 'changed\nchanged\n1')" && stat -c '%A %n' *`,
			"cat /srv/data/*; ls /srv",
			"echo x > /usr/bin/x",
			"run-as-agent bash -c 'echo late > late; cat /app/late; echo x > /srv/x'",
		},
	}
	ofImage := args{"image": "app:1", "workdir": "/app", "grade_paths": []string{"/srv/data"}}
	want = outcomeIn(t, srv.url, task, ofImage)
	require.InDelta(t, 0.5, want.Reward, 1e-9, "%+v", want.Verify)

	ofImage["backend"] = "docker"
	require.Equal(t, want, outcomeIn(t, srv.url, task, ofImage))
	require.Empty(t, containers(t, engine))
	require.Empty(t, machines.Machines())
	require.Empty(t, srv.sandboxes(t))
}

// A task whose agent is root in its image, or is the user that the image names, has the same results in an
// OCI image and in a container, with OpenCode and with the agent react. The verifier does not get what the
// agent installs: it gets the image and the graded folders.
func TestUsersOfAnImageOnBothBackends(t *testing.T) {
	t.Parallel()
	engine, folder := dockertest.RemappedForTest(t), t.TempDir()
	require.NoError(t, errors.Join(sandboxtest.FillUsersImage(folder), imagetest.Fill(folder, []string{"rg"})))
	require.NoError(
		t,
		engine.Import(
			t.Context(),
			folder,
			"users:1",
			"",
			"USER "+sandboxtest.UsersImageUser,
			"WORKDIR "+sandboxtest.UsersImageWorkdir,
		),
	)
	srv := startDev(t, devOptions{
		script: installScript + appScript, env: []string{"DOCKER_HOST=" + engine.Socket},
		flags: []string{"--config", configFile(t, "sandbox:\n  backends: {local: {}, docker: {}}\n")},
	})
	saved, err := engine.Client.ImageSave(t.Context(), []string{"users:1"})
	require.NoError(t, err)

	defer saved.Close()

	archive, err := os.Create(filepath.Join(t.TempDir(), "users.tar"))
	require.NoError(t, err)
	_, err = io.Copy(archive, saved)
	require.NoError(t, errors.Join(err, archive.Close()))
	out, err := exec.CommandContext(t.Context(), filepath.Join(bin, "rolloutd"), "image", "import", "--data", srv.data, archive.Name(), "users:1").
		CombinedOutput()
	require.NoError(t, err, "%s", out)

	root := args{"image": "users:1", "user": "root", "workdir": "image", "grade_paths": []string{"/srv/data"}}
	task := args{
		"instruction": "install the tool", "agent": "react",
		"setup": []string{"[ $UID = 0 ] && echo setup > /usr/setup && touch by-setup"},
		"verify": []string{
			`test "$(cat out.txt)" = "$(printf 'made by 0\nmade by 33')" && cat /srv/data/made by-setup`,
			"cat /etc/passwd > /dev/null && [ ! -e /usr/bin/tool ] && [ ! -e /etc/tool.conf ]",
			"run-as-agent bash -c 'echo x > /usr/bin/x'",
			"run-as-agent bash -c 'id -u; grep ^CapEff /proc/self/status'",
		},
	}
	want := sameInAContainer(t, srv.url, task, root)
	require.InDelta(t, 0.75, want.Reward, 1e-9, "%+v", want.Verify)
	require.Len(t, want.Turns, 4)

	task["instruction"], task["agent"] = "change the application", "react"
	task["setup"] = []string{"[ $(id -un) = app ]"}
	task["verify"] = []string{`test "$(cat main)" = original && ls`, "id -u; run-as-agent id"}
	want = sameInAContainer(t, srv.url, task, args{"image": "users:1", "user": "image", "workdir": "image"})
	require.Equal(t, rollout.Completed, want.Outcome, want.Error)
	require.Empty(t, containers(t, engine))
	require.Empty(t, srv.sandboxes(t))
}

// sameInAContainer runs a task in an OCI image and in a container, and requires that the results without
// times are equal. It returns the result.
func sameInAContainer(t *testing.T, url string, task, sandbox args) outcome {
	t.Helper()
	want := outcomeIn(t, url, task, sandbox).withoutTimes()
	require.Equal(t, rollout.Completed, want.Outcome, want.Error)

	there := args{"backend": "docker"}
	maps.Copy(there, sandbox)
	require.Equal(t, want, outcomeIn(t, url, task, there).withoutTimes())

	return want
}

// sameEverywhere runs a task on all backends and requires that the results are equal after shown. It
// returns the result.
func sameEverywhere(t *testing.T, url string, task args, shown func(outcome) outcome) outcome {
	t.Helper()
	want := shown(outcomeIn(t, url, task, args{}))
	require.Equal(t, rollout.Completed, want.Outcome, want.Error)
	require.InDelta(t, 2.0/3, want.Reward, 1e-9, "%+v", want.Verify)

	for name, sandbox := range map[string]args{
		"image": {"image": "app:1"}, "docker": {"backend": "docker", "image": "app:1"}, "e2b": {"backend": "e2b"},
	} {
		require.Equal(t, want, shown(outcomeIn(t, url, task, sandbox)), name)
	}

	return want
}
