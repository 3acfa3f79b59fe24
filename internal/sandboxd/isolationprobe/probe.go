// Package isolationprobe tries, from inside a sandbox, actions that every sandbox must refuse. It changes
// nothing: it opens a file for writing and closes it again.
package isolationprobe

import (
	"context"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Finding is the result of one attempt.
type Finding struct {
	Name    string `json:"name"`
	Refused bool   `json:"refused"`
	Detail  string `json:"detail,omitempty"`
}

// Run makes all attempts. hostAddr is a TCP address on which the host listens.
func Run(ctx context.Context, hostAddr string) []Finding {
	attempts := []struct {
		name string

		// returns nil if it was not refused
		try func() error
	}{
		{
			"write the kernel's core_pattern",
			func() error { return openFile("/proc/sys/kernel/core_pattern", os.O_WRONLY) },
		},
		{"read the host's shadow file", func() error { return openFile("/etc/shadow", os.O_RDONLY) }},
		{"open a vsock", func() error { return socket(unix.AF_VSOCK, unix.SOCK_STREAM) }},
		{"open a packet socket", func() error { return socket(unix.AF_PACKET, unix.SOCK_RAW) }},
		{"reach the host's loopback", func() error { return dial(ctx, "tcp", hostAddr) }},
		{"reach a container engine", func() error { return dial(ctx, "unix", "/run/docker.sock") }},
		{"mount", func() error { return unix.Mount("none", "/tmp", "tmpfs", 0, "") }},
		{"make a user namespace", newUserNamespace},
		{"read the supervisor's environment", func() error { return readFile("/proc/1/environ") }},
		{"keep capabilities", func() error { return capabilities("/proc/self/status") }},
		{"gain privileges by exec", func() error { return field("/proc/self/status", "NoNewPrivs:", "1") }},
		{"call the kernel unfiltered", func() error { return field("/proc/self/status", "Seccomp:", "2") }},
		{"trace exits", traceExits},
		{"see the host's devices", func() error { return openFile("/sys/class", os.O_RDONLY) }},
	}

	var findings []Finding

	for _, a := range attempts {
		err := a.try()

		f := Finding{Name: a.name, Refused: err != nil}
		if err != nil {
			f.Detail = err.Error()
		}

		findings = append(findings, f)
	}

	return findings
}

func openFile(path string, flag int) error {
	f, err := os.OpenFile(path, flag, 0)
	if err == nil {
		_ = f.Close()
	}

	return err
}

func readFile(path string) error {
	_, err := os.ReadFile(path)
	return err
}

func socket(family, kind int) error {
	fd, err := unix.Socket(family, kind, 0)
	if err == nil {
		_ = unix.Close(fd)
	}

	return err
}

func dial(ctx context.Context, network, addr string) error {
	conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, network, addr)
	if err == nil {
		_ = conn.Close()
	}

	return err
}

func newUserNamespace() error {
	pid, err := syscall.ForkExec("/proc/self/exe", []string{"sandboxd", "version"}, &syscall.ProcAttr{
		Sys: &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER},
	})
	if err == nil {
		_, _ = unix.Wait4(pid, nil, 0, nil)
	}

	return err
}

// traceExits requests PTRACE_O_TRACEEXIT, with which two processes survive SIGKILL, for a process that does
// not exist. Without a filter the kernel accepts the request before it looks for the process.
func traceExits() error {
	// above the default of pid_max
	const highestPID = 1<<22 - 1
	for _, request := range []uintptr{unix.PTRACE_SETOPTIONS, unix.PTRACE_SEIZE} {
		_, _, errno := unix.RawSyscall6(unix.SYS_PTRACE, request, highestPID, 0, unix.PTRACE_O_TRACEEXIT, 0, 0)
		if errno == unix.ESRCH || errno == 0 {
			return nil
		}
	}

	return unix.EPERM
}

// capabilities returns an error if every set is empty, including the bounding set.
func capabilities(status string) error {
	for _, set := range []string{"CapInh:", "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:"} {
		if err := field(status, set, strings.Repeat("0", 16)); err == nil {
			return nil
		}
	}

	return fmt.Errorf("all sets are empty")
}

// field returns an error if the line of the status file with that key has the safe value.
func field(status, key, safe string) error {
	data, err := os.ReadFile(status)
	if err != nil {
		// unknown counts as not refused
		return nil
	}

	for line := range strings.Lines(string(data)) {
		if value, ok := strings.CutPrefix(line, key); ok && strings.TrimSpace(value) == safe {
			return fmt.Errorf("%s %s", key, safe)
		}
	}

	return nil
}
