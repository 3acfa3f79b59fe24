package docker_test

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/sandbox/docker"
)

// The suite holds over a daemon that is reached by ssh, where each connection is a login.
func TestSuiteSSH(t *testing.T) {
	if os.Getenv("ROLLOUTD_REDTEAM") == "" {
		t.Skip("set ROLLOUTD_REDTEAM=1")
	}
	e := engine(t)
	host := startSSH(t)
	suite(t, docker.Options{Daemon: docker.Daemon{Host: host + strings.TrimPrefix(e.Socket, "unix://")}}, nil)
}

// startSSH starts an ssh server for this user, has this process's ssh log in to it, and returns its URL.
func startSSH(t *testing.T) string {
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
		require.NoError(t, exec.CommandContext(t.Context(), "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", at(name)).Run())
	}
	require.NoError(t, os.MkdirAll("/run/sshd", 0o755)) // sshd wants it as root
	port := freePort(t)
	write := func(name, text string, mode os.FileMode) {
		require.NoError(t, os.WriteFile(at(name), []byte(text), mode))
	}
	write("sshd", fmt.Sprintf("Port %s\nListenAddress 127.0.0.1\nHostKey %s\nAuthorizedKeysFile %s\nStrictModes no\nPidFile none\nUsePAM no\nPermitRootLogin yes\n",
		port, at("host"), at("login.pub")), 0o600)
	write("config", fmt.Sprintf("IdentityFile %s\nIdentitiesOnly yes\nStrictHostKeyChecking no\nUserKnownHostsFile /dev/null\nLogLevel ERROR\n", at("login")), 0o600)
	write("ssh", fmt.Sprintf("#!/bin/sh\nexec %s -F %s \"$@\"\n", ssh, at("config")), 0o700)
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))

	var log bytes.Buffer
	cmd := exec.Command(sshd, "-D", "-e", "-f", at("sshd"))
	cmd.Stderr, cmd.SysProcAttr = &log, &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Log(log.String())
		}
	})
	require.Eventually(t, func() bool {
		return exec.CommandContext(t.Context(), at("ssh"), "-p", port, "127.0.0.1", "true").Run() == nil
	}, 2*time.Minute, 100*time.Millisecond)
	return "ssh://" + me.Username + "@127.0.0.1:" + port
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	require.NoError(t, err)
	return port
}
