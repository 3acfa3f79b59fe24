package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// try runs a tool call in a trajectory of the client.
func (c bearer) try(t *testing.T, trajectory, id, tool string, arguments args) executed {
	t.Helper()
	status, out := c.rest(t, "POST /executor/execute", args{
		"trajectory_id": trajectory,
		"tool":          args{"name": tool, "arguments": arguments, "uniq_id": id},
	})
	require.Equal(t, http.StatusOK, status, out)

	var a executed
	require.NoError(t, json.Unmarshal([]byte(out), &a), out)

	return a
}

func (c bearer) bash(t *testing.T, trajectory, id, command string) executed {
	t.Helper()
	return c.try(t, trajectory, id, "bash", args{"command": command})
}

// rollouts returns the ids of the client's rollouts.
func (c bearer) rollouts(t *testing.T) (ids []string) {
	t.Helper()
	status, out := c.rest(t, "GET /rollouts", nil)
	require.Equal(t, http.StatusOK, status, out)

	var list struct {
		Rollouts []struct {
			ID string `json:"rollout_id"`
		}
	}
	require.NoError(t, json.Unmarshal([]byte(out), &list))

	for _, r := range list.Rollouts {
		ids = append(ids, r.ID)
	}

	return ids
}

const treasure = "alices-treasure-5f1c"

// Two clients with different tokens have an episode each on one host, and bob's policy is hostile. Bob
// cannot read, reach or end anything of alice's: files, processes, ports, terminals or calls. He tries from
// inside his sandbox and over the routes with guessed ids. Alice's calls do not wait for his. With
// ROLLOUTD_REDTEAM set, bob also exhausts resources of the host.
func TestEpisodesAreIsolated(t *testing.T) {
	t.Parallel()
	alice, bob, _ := startShared(t)
	setUp := alice.bash(
		t,
		"t",
		"u",
		"echo "+treasure+" | tee secret.txt > /tmp/secret.txt; touch alive; sh -c 'while test -e alive; do sleep 1; done; : "+treasure+"' > /dev/null 2>&1 & "+
			`perl -MIO::Socket::INET -MIO::Socket::UNIX -e '
			$tcp = IO::Socket::INET->new(Listen => 5, LocalAddr => "127.0.0.1:8765") or die;
			$unix = IO::Socket::UNIX->new(Listen => 5, Local => "\0alice") or die; open(F, ">", "listens"); close(F); sleep 3600' > /dev/null 2>&1 &
		until test -e listens; do sleep 0.1; done`,
	)
	require.True(t, setUp.Success, "%+v", setUp)
	require.Equal(
		t,
		treasure,
		alice.try(t, "t", "pty", "terminal_stateful", args{"command": "X=" + treasure + "; echo $X"}).Output,
	)

	requireNothingInside(t, bob)
	requireNothingOutside(t, alice, bob)
	requireNoWait(t, alice, bob)

	if os.Getenv("ROLLOUTD_REDTEAM") != "" {
		attack(t, bob)
	}
	// The loop's child has the same command line until it becomes sleep, so pgrep returns only the oldest process.
	still := alice.bash(
		t,
		"t",
		"still",
		"cat secret.txt; pgrep -of '^sh -c while test' | wc -l; grep -c @alice /proc/net/unix",
	)
	require.Equal(t, treasure+"\n1\n1", still.Output, still.Error)
	require.Equal(t, treasure, alice.try(t, "t", "pty-2", "terminal_stateful", args{"command": "echo $X"}).Output)

	for _, c := range []bearer{alice, bob} {
		status, out := c.rest(t, "POST /executor/release", args{"trajectory_id": "t"})
		require.Equal(t, http.StatusOK, status, out)
	}
}

// requireNothingInside searches for alice's files, processes, ports and terminals from inside bob's sandbox.
func requireNothingInside(t *testing.T, bob bearer) {
	t.Helper()

	port := bob.url[strings.LastIndex(bob.url, ":")+1:]
	for name, c := range map[string]struct{ command, want string }{
		"files":             {"grep -rl 'alice[s]-treasure' /home /tmp /var/tmp /run /dev/shm /mnt", ""},
		"processes":         {"cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -c 'while test -e aliv[e]'", "0"},
		"environments":      {"cat /proc/[0-9]*/environ | grep -ac 'alice[s]-treasure'", "0"},
		"ports":             {"(exec 3<> /dev/tcp/127.0.0.1/8765) && echo open", ""},
		"the server's port": {"(exec 3<> /dev/tcp/127.0.0.1/" + port + ") && echo open", ""},
		"interfaces":        {"tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '", "lo"},
		"abstract sockets":  {"grep -c @alice /proc/net/unix", "0"},
		"terminals":         {"ls /dev/pts | grep -v ptmx", ""},
		"shared memory":     {"ls -A /dev/shm /dev/mqueue | grep -v '^/dev' | grep .", ""},
		"signals":           {"trap '' TERM; kill -TERM -1; echo sent", "sent"},
	} {
		require.Equal(t, c.want, bob.bash(t, "t", "inside "+name, "{ "+c.command+"; } 2> /dev/null").Output, name)
	}

	require.NotContains(t, bob.try(t, "t", "screen", "tmux", args{
		"action":         "capture",
		"capture_entire": true,
	}).Output, treasure)
}

// requireNothingOutside requests alice's files over the routes with her ids, and files of the host over symbolic links.
func requireNothingOutside(t *testing.T, alice, bob bearer) {
	t.Helper()

	var theirs []string

	require.Eventually(
		t,
		func() bool { theirs = alice.rollouts(t); return len(theirs) > 0 },
		5*time.Minute,
		200*time.Millisecond,
		"alice's rollout is listed",
	)
	require.Len(t, theirs, 1)

	for _, id := range append(theirs, theirs[0]+".1", "../"+theirs[0]) {
		for _, route := range []string{"read", "list", "archive"} {
			_, out := bob.rest(t, "POST /executor/artifacts/"+route, args{"trajectory_id": id, "path": "secret.txt"})
			require.Contains(t, out, "No active slot for trajectory", route)
		}

		status, out := bob.rest(t, "POST /executor/release", args{"trajectory_id": id})
		require.Equal(t, http.StatusOK, status, out)
		// the id names an episode of bob's own
		own := bob.bash(t, id, "u", "cat secret.txt")
		require.Contains(t, own.Error, "Exit code: 1", id)
		require.NotContains(t, own.Output, treasure)
		status, _ = bob.rest(t, "POST /executor/release", args{"trajectory_id": id})
		require.Equal(t, http.StatusOK, status)
	}

	require.NotContains(t, bob.bash(t, "t", "u", "cat secret.txt").Output, treasure, "alice's uniq_id")

	for _, at := range []string{"GET ", "GET /messages", "GET /events", "POST /score", "POST /abort"} {
		method, path, _ := strings.Cut(at, " ")
		status, out := bob.rest(t, method+" /rollouts/"+theirs[0]+path, args{"score": 1})
		require.Equal(t, http.StatusNotFound, status, "%s: %s", at, out)
	}

	links := bob.bash(
		t,
		"t",
		"links",
		"ln -s / root; ln -s ../../../.. up; ln -s /proc/1/root proc; ln -s /home/user/workdir/../../.. far",
	)
	require.True(t, links.Success, links.Error)

	for i, path := range []string{"root/etc/passwd", "up/etc/passwd", "proc/etc/passwd", "far/etc/passwd", "../../../etc/passwd", "/etc/passwd", "root/../etc/passwd"} {
		for _, route := range []string{"read", "list", "archive"} {
			_, out := bob.rest(t, "POST /executor/artifacts/"+route, args{"trajectory_id": "t", "path": path})
			require.Contains(t, out, `"success":false`, "%d %s %s", i, route, path)
		}
	}
}

// requireNoWait keeps bob's tools busy with CPU time and output, and requires that alice's calls return
// before bob's calls end.
func requireNoWait(t *testing.T, alice, bob bearer) {
	t.Helper()

	busy := map[string]string{
		"cpu":    "for i in 1 2 3 4 5 6 7 8; do (while ! test -e go; do :; done) & done; wait",
		"output": "until test -e go; do yes | head -c 1M; sleep 0.1; done | tail -c 10",
	}

	bob.bash(t, "busy", "open", "true")

	answers := make(chan executed, len(busy))
	for id, command := range busy {
		go func() {
			answers <- bob.try(t, "busy", id, "bash", args{"command": "touch " + id + "; " + command, "timeout": 600})
		}()
	}

	require.Eventually(t, func() bool {
		return strings.Contains(
			bob.bash(
				t,
				"busy",
				fmt.Sprint("look ", time.Now().UnixNano()),
				"ls cpu output 2> /dev/null | tr '\\n' ' '",
			).Output,
			"cpu output",
		)
	}, 4*time.Minute, 200*time.Millisecond)

	for i := range 3 {
		require.Equal(t, treasure, alice.bash(t, "t", fmt.Sprint("beside ", i), "cat secret.txt").Output)
	}

	require.Empty(t, answers, "bob's calls still run")
	require.True(t, bob.bash(t, "busy", "go", "touch go").Success)

	for range busy {
		select {
		case a := <-answers:
			require.True(t, a.Success, "%+v", a)
		case <-time.After(5 * time.Minute):
			require.Fail(t, "bob's calls do not end")
		}
	}

	status, out := bob.rest(t, "POST /executor/release", args{"trajectory_id": "busy"})
	require.Equal(t, http.StatusOK, status, out)
}

// attack exhausts each resource of bob's sandbox. Alice's tools must still work afterwards.
func attack(t *testing.T, bob bearer) {
	t.Helper()

	for i, command := range []string{
		":(){ :|:& };: ; sleep 5",                                           // processes
		"for i in 1 2 3 4 5 6 7 8; do (while :; do :; done) & done",         // CPU time
		"head -c 100G /dev/zero > big; rm -f big",                           // disk
		"head -c 20G /dev/zero | tail -c 20G | wc -c",                       // memory
		"yes | head -c 100M",                                                // output
		"mkdir deep; cd deep; for i in $(seq 2000); do mkdir d; cd d; done", // depth
	} {
		a := bob.try(t, "t", fmt.Sprint("attack ", i), "bash", args{"command": command, "timeout": 15})
		t.Logf("%s: %t %s %.200q", command, a.Success, a.Error, a.Output)
	}
}
