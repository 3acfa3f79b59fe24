package sandboxd_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/rolloutd/rolloutd/internal/driver/cgroup"
	"github.com/rolloutd/rolloutd/internal/sandboxd"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

// A process is forked directly into the cgroup, without a write to cgroup.procs, and may not call clone3 itself.
func TestProcessesAreForkedIntoTheCgroup(t *testing.T) {
	t.Parallel()
	folder := ownCgroup(t)
	open, err := os.Open(folder)
	require.NoError(t, err)

	defer open.Close()

	h := sandboxd.New(sandboxd.Options{Cgroup: open}).Handler()

	pid := start(t, h, `{"argv":["sleep","infinity"],"env":{"PATH":"/usr/bin:/bin"},"dir":"/"}`)
	defer func() {
		require.NoError(t, unix.Kill(pid, unix.SIGKILL))
		_, _ = unix.Wait4(pid, nil, 0, nil)
	}()

	require.Contains(t, read(t, pid, "cgroup"), "0::/"+filepath.Base(folder)+"\n")
	require.Equal(t, filters(t, os.Getpid())+1, filters(t, pid))
}

// ownCgroup creates a cgroup of version 2, which many machines have in addition to version 1.
func ownCgroup(t *testing.T) string {
	t.Helper()

	root := cgroup.New("/sys/fs/cgroup").Root
	if root == "" || os.Geteuid() != 0 {
		t.Skip("needs root, and cgroups of version 2")
	}

	folder := filepath.Join(root, fmt.Sprintf("rolloutd-test-%d", os.Getpid()))
	require.NoError(t, os.Mkdir(folder, 0o755))
	t.Cleanup(func() {
		require.Eventually(
			t,
			func() bool { return !errors.Is(unix.Rmdir(folder), unix.EBUSY) },
			time.Minute,
			time.Millisecond,
		)
	})

	return folder
}

// start starts a process and returns its pid on this machine.
func start(t *testing.T, h http.Handler, process string) int {
	t.Helper()

	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodPut, "/v1/processes/a", strings.NewReader(process)))
	require.Equal(t, http.StatusOK, w.Code, "%s", w.Body)

	var status wire.Status
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &status))
	require.NotZero(t, status.PID)

	return status.PID
}

func read(t *testing.T, pid int, file string) string {
	t.Helper()

	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file))
	require.NoError(t, err)

	return string(data)
}

// filters counts the system call filters of a process.
func filters(t *testing.T, pid int) (n int) {
	t.Helper()
	_, after, found := strings.Cut(read(t, pid, "status"), "\nSeccomp_filters:")
	require.True(t, found)

	_, err := fmt.Sscan(after, &n)
	require.NoError(t, err)

	return n
}
