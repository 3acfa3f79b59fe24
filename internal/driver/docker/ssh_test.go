package docker_test

import (
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/driver/docker"
	"github.com/rolloutd/rolloutd/internal/sandbox/sandboxtest"
)

// The suite passes over a daemon that is reached by ssh, where each connection is a login.
func TestSuiteSSH(t *testing.T) {
	if os.Getenv("ROLLOUTD_REDTEAM") == "" {
		t.Skip("set ROLLOUTD_REDTEAM=1")
	}

	e := engine(t)
	host := serveSSH(t)
	suite(
		t,
		docker.Options{Daemon: docker.Daemon{Host: host + strings.TrimPrefix(e.Socket, "unix://")}},
		sandboxtest.Harness{},
	)
}

// serveSSH configures ssh to log in to this machine, each time on a new ssh server, and returns the URL.
func serveSSH(t *testing.T) string {
	t.Helper()

	sshd, err := exec.LookPath("sshd")
	if err != nil {
		t.Skip("sshd is not installed (apt install openssh-server)")
	}

	ssh, err := exec.LookPath("ssh")
	require.NoError(t, err)
	me, err := user.Current()
	require.NoError(t, err)
	dir := t.TempDir()

	at := func(name string) string { return filepath.Join(dir, name) }
	for _, name := range []string{"host", "login"} {
		require.NoError(
			t,
			exec.CommandContext(t.Context(), "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", at(name)).Run(),
		)
	}
	// sshd requires it when it runs as root
	require.NoError(t, os.MkdirAll("/run/sshd", 0o755))

	write := func(name, text string, mode os.FileMode) {
		require.NoError(t, os.WriteFile(at(name), []byte(text), mode))
	}
	write(
		"sshd",
		fmt.Sprintf(
			"HostKey %s\nAuthorizedKeysFile %s\nStrictModes no\nUsePAM no\nPermitRootLogin yes\n",
			at("host"),
			at("login.pub"),
		),
		0o600,
	)
	write(
		"config",
		fmt.Sprintf(
			"ProxyCommand %s -i -f %s\nIdentityFile %s\nIdentitiesOnly yes\nStrictHostKeyChecking no\nUserKnownHostsFile /dev/null\nLogLevel ERROR\n",
			sshd,
			at("sshd"),
			at("login"),
		),
		0o600,
	)
	write("ssh", fmt.Sprintf("#!/bin/sh\nexec %s -F %s \"$@\"\n", ssh, at("config")), 0o700)
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	out, err := exec.CommandContext(t.Context(), at("ssh"), "daemon", "true").CombinedOutput()
	require.NoError(t, err, "%s", out)

	return "ssh://" + me.Username + "@daemon"
}
