package view_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/rolloutd/rolloutd/internal/sandboxd/view"
)

// A line of mountinfo is read as in proc_pid_mountinfo(5). Read-only mounts are left out.
func TestParseMount(t *testing.T) {
	t.Parallel()

	for line, want := range map[string]view.Mount{
		"138 120 0:59 / /home/user rw,nosuid,nodev,relatime - tmpfs tmpfs rw,size=65536k": view.NewMount("/home/user", unix.MS_NOSUID),
		"9 1 0:3 / /tmp rw,nosymfollow - tmpfs tmpfs rw":                                  view.NewMount("/tmp", unix.MS_NOSYMFOLLOW),
		`41 1 0:3 /x /a\040b\134c rw,noexec shared:1 - tmpfs none rw`:                     view.NewMount(`/a b\c`, unix.MS_NOEXEC),
	} {
		m, ok := view.Parse(line)
		require.True(t, ok)
		require.Equal(t, want, m)
	}

	for _, line := range []string{"138 120 0:59 / /usr ro,nosuid - tmpfs tmpfs rw", "138 120", ""} {
		_, ok := view.Parse(line)
		require.False(t, ok, line)
	}
}

// The verifier's own folders and the kernel's keep their mount options.
func TestOwnMounts(t *testing.T) {
	t.Parallel()

	for path, want := range map[string]bool{
		"/": true, "/verifier": true, "/proc/sys": true, "/dev": true, "/opt/rolloutd/control": true,
		"/dev/shm": false, "/home/user": false, "/tmp": false, "/app": false, "/verifiers": false,
	} {
		require.Equal(t, want, view.IsOwn(path), path)
	}
}
