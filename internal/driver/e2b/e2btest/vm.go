package e2btest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/rolloutd/rolloutd/internal/testkit/child"
)

// script changes to the root file system of a machine, with cgroups (pairs of a folder here and its path
// there), prints ready and sleeps.
const script = `set -e
mount --make-rprivate /
mount --bind "$0" "$0"
mount -t proc proc "$0/proc"
mount --rbind /dev "$0/dev"
while [ $# -gt 0 ]; do
	mkdir -p "$0$2"
	mount --bind "$1" "$0$2"
	shift 2
done
cd "$0"
pivot_root . .
umount -l .
echo ready
exec sleep infinity </dev/null >/dev/null 2>&1`

// vm replaces a virtual machine.
type vm struct {
	root    string
	cgroups cgroups

	// id of the first process on this machine
	first  int
	ended  <-chan struct{}
	killed sync.Once
}

// boot starts a machine with a copy of the template.
func (s *Server) boot(ctx context.Context, id string) (*vm, error) {
	root := filepath.Join(s.dir, id)
	// Files are hard links: nothing writes into a file of the template.
	if out, err := exec.CommandContext(ctx, "cp", "-al", filepath.Join(s.dir, "template"), root).
		CombinedOutput(); err != nil {
		return nil, fmt.Errorf("copy the template: %w: %s", err, out)
	}

	m := &vm{root: root}
	args := []string{
		"--mount", "--pid", "--net", "--ipc", "--uts", "--fork", "--kill-child=KILL", "sh", "-c", script, root,
	}

	if !s.NoCgroups {
		var err error
		if m.cgroups, err = makeCgroups(id); err != nil {
			return nil, fmt.Errorf("cgroups of a machine: %w", err)
		}
	}

	for _, c := range m.cgroups {
		args = append(args, c[0], c[1])
	}

	cmd := exec.Command("unshare", args...)

	var said bytes.Buffer

	cmd.Stderr = &said

	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}

	if m.ended, err = child.Start(cmd, syscall.SIGKILL); err != nil {
		return nil, errors.Join(err, m.cgroups.remove())
	}

	line, _ := bufio.NewReader(out).ReadString('\n')
	if line != "ready\n" {
		<-m.ended

		err := fmt.Errorf("it did not boot: %s", strings.TrimSpace(said.String()))

		return nil, errors.Join(err, m.cgroups.remove())
	}

	children, err := childrenOf(cmd.Process.Pid)
	if err != nil || len(children) != 1 {
		return nil, fmt.Errorf("children of unshare: %v: %w", children, err)
	}

	m.first = children[0]

	return m, nil
}

// kill ends all processes of the machine and removes its files.
func (m *vm) kill() error {
	m.killed.Do(func() { _ = syscall.Kill(m.first, syscall.SIGKILL) })
	<-m.ended

	return errors.Join(m.cgroups.remove(), os.RemoveAll(m.root))
}

// command returns a command in the machine.
func (m *vm) command(uid int, dir string, argv ...string) *exec.Cmd {
	id := strconv.Itoa(uid)
	args := []string{
		"--target", strconv.Itoa(m.first), "--mount", "--pid", "--net", "--ipc", "--uts", "--root",
		"--wdns=" + dir, "--setuid", id, "--setgid", id, "--",
	}

	return exec.Command("nsenter", append(args, argv...)...)
}

// childrenOf returns the living children of a process.
func childrenOf(pid int) ([]int, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	if err != nil {
		return nil, err
	}

	var pids []int

	for _, field := range strings.Fields(string(data)) {
		child, err := strconv.Atoi(field)
		if err != nil {
			return nil, err
		}

		pids = append(pids, child)
	}

	return pids, nil
}
