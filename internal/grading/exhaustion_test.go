package grading_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/driver"
	"github.com/rolloutd/rolloutd/internal/sandbox/sandboxtest"
)

// exhaustion is a shell command that exhausts a resource. It prints "up" when it is running.
type exhaustion struct {
	name, script string
	// needsCgroups is bounded only by cgroups, which an ordinary user does not have.
	needsCgroups bool
}

func exhaustions() []exhaustion {
	// python returns a command that runs a script until it is killed.
	python := func(lines ...string) string {
		return "exec python3 -c '" + strings.Join(
			append([]string{"import os, socket, sys, threading, time"}, lines...),
			"\n",
		) + "'"
	}

	const up = `print("up", flush=True)`

	return []exhaustion{
		{name: "fork bomb", script: "echo up; bomb() { (bomb | bomb) & bomb; }; bomb 2>/dev/null"},
		{name: "64 held bodies", script: python(
			`def post():`,
			`    s = socket.create_connection(("127.0.0.1", 7000))`,
			`    try:`,
			`        s.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % (60 << 20))`,
			`        for _ in range(60): s.sendall(bytes(1 << 20))`,
			`    except OSError: pass`,
			`    time.sleep(3600)`,
			`for _ in range(64): threading.Thread(target=post).start()`,
			up,
		)},
		{
			name:         "memory bomb",
			needsCgroups: true,
			script:       `echo up; while :; do (x=x; while :; do x=$x$x; done) 2>/dev/null; done`,
		},
		{
			name: "disk",
			script: "for d in ~ /tmp /dev/shm /run; do head -c 1G /dev/zero > $d/fill 2>/dev/null; done; echo up; " +
				"while :; do echo x >> ~/more; done 2>/dev/null",
		},
		{name: "inodes", script: python(
			up, `for i in range(1000000):`,
			`    for d in ["/tmp/", "/dev/shm/", "/run/", "/home/user/"]:`,
			`        try: open(d + str(i), "w").close()`,
			`        except OSError: pass`)},
		{name: "descriptors", script: python(
			`for _ in range(30):`,
			`    if os.fork() == 0: break`,
			`held = []`,
			`try:`,
			`    while True: held.append(socket.socketpair())`,
			`except OSError: pass`, up, `time.sleep(3600)`)},
		{name: "connections", script: python(
			`held = []`,
			`try:`,
			`    for _ in range(4000): held.append(socket.create_connection(("127.0.0.1", 7000), 1))`,
			`except OSError: pass`, up, `time.sleep(3600)`)},
		{name: "output", script: "echo up; yes & yes >&2 & exec yes"},
		{
			name: "trees",
			script: `mkdir -p $(printf 'd/%.0s' $(seq 200)); truncate -s 60M s1 s2 s3; mkdir l0; (cd l0; seq 1000 | xargs touch); ` +
				`for i in $(seq 99); do cp -al l0 l$i 2>/dev/null || break; done; echo up; exec sleep infinity`,
		},
		{name: "processor", script: "echo up; for _ in 1 2 3 4 5 6 7 8; do (while :; do :; done) & done; wait"},
	}
}

// serverMemory bounds the memory of the process that serves all sandboxes, in bytes. The race detector
// increases the use.
const serverMemory = 1 << 30

// One sandbox exhausts a resource. Its neighbor still runs commands, calls its model and is graded. The
// greedy sandbox responds after its processes are killed, and its reward is 0. The neighbour's slowdown is
// logged and not asserted, because it depends on the machine.
func TestExhaustion(t *testing.T) {
	t.Parallel()
	a := newAttacked(t)
	n := newNeighbour(t, a)
	alone := n.round(t)

	for i, e := range exhaustions() {
		if e.needsCgroups && !a.separate || os.Getenv(redteamEnv) == "" && i > 1 {
			continue
		}

		t.Run(e.name, func(t *testing.T) {
			id := "greedy-" + cheat{name: e.name}.id()
			greedy := a.greedy(t, id, e)
			beside := n.round(t)
			t.Logf("neighbour: %s beside it, %s alone: %.1f times", beside, alone, float64(beside)/float64(alone))
			require.NoError(t, greedy.KillAll(t.Context()))
			require.Equal(t, "ok\n", greedy.Bash("echo ok").Stdout)
			record := a.grade(t, id, 0, styles()[0], 5*time.Minute)
			require.NotNil(t, record.Reward, "%+v", record)
			require.Zero(t, *record.Reward, "%+v", record)
			t.Logf("this process has held at most %d MiB", peakMemory(t)>>20)
			require.Less(t, peakMemory(t), int64(serverMemory))
		})
	}
}

// greedy creates a sandbox in which e is running.
func (a *attacked) greedy(t *testing.T, id string, e exhaustion) *sandboxtest.Place {
	t.Helper()
	_, _, err := a.create(t.Context(), id+".1", driver.PurposeAgent)
	require.NoError(t, err)
	t.Cleanup(func() { _ = a.backend.Destroy(context.Background(), id+".1") })
	p := sandboxtest.Attach(t, a.backend, id+".1")
	p.StartBash("greedy", "cd ~; "+e.script)
	p.Eventually(func() bool {
		head, err := p.Log(t.Context(), "greedy", "stdout", 0, 3)
		return err == nil && string(head.Data) == "up\n"
	}, e.name+" is running")

	return p
}

// neighbor is a sandbox whose agent works normally.
type neighbour struct {
	attacked *attacked
	place    *sandboxtest.Place
	rounds   int
}

func newNeighbour(t *testing.T, a *attacked) *neighbour {
	t.Helper()
	a.agent(t, "neighbour", cheat{hello: "print('Hello')"})
	t.Cleanup(func() { _ = a.backend.Destroy(context.Background(), "neighbour.1") })
	ctx, cancel := context.WithCancel(t.Context())

	served := make(chan error, 1)
	go func() {
		served <- a.backend.ServeModel(ctx, "neighbour.1", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(w, r.Body)
		}), nil)
	}()

	t.Cleanup(func() { cancel(); <-served })

	return &neighbour{attacked: a, place: sandboxtest.Attach(t, a.backend, "neighbour.1")}
}

// round runs a command, calls the model and grades the work. It returns the duration.
func (n *neighbour) round(t *testing.T) time.Duration {
	t.Helper()

	began := time.Now()
	n.rounds++
	said := n.place.Bash(fmt.Sprintf(`exec 3<>/dev/tcp/127.0.0.1/7000
		printf 'POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 7\r\nConnection: close\r\n\r\nword%%03d' %d >&3
		cat <&3; seq 10000 | sha256sum`, n.rounds)).Stdout
	require.Contains(t, said, fmt.Sprintf("word%03d", n.rounds))
	require.Contains(t, said, "8060aa0ac20a3e5db2b67325c98a0122f2d09a612574458225dcb9a086f87cc3")
	record := n.attacked.grade(t, "neighbour", n.rounds, styles()[0], 5*time.Minute)
	require.NotNil(t, record.Reward, "%+v", record)
	require.InDelta(t, 1.0, *record.Reward, 0, "%+v", record)

	return time.Since(began)
}

// peakMemory returns the maximum resident memory of this process in bytes.
func peakMemory(t *testing.T) int64 {
	t.Helper()

	status, err := os.ReadFile("/proc/self/status")
	require.NoError(t, err)

	_, after, _ := strings.Cut(string(status), "VmHWM:")

	var kib int64

	_, err = fmt.Sscan(after, &kib)
	require.NoError(t, err)

	return kib << 10
}
