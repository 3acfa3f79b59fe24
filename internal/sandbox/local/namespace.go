package local

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// namespace is the driver's part in making a user namespace with more than one user id: an unprivileged process may map only its
// own. bwrap makes the namespace, describes it on a pipe, and waits for a byte on another one.
type namespace struct {
	info, childInfo *os.File
	run, childGo    *os.File
	ids             string // the map, as the kernel reads it
}

func newNamespace(ids string) (*namespace, error) {
	n := &namespace{ids: ids}
	var err error
	if n.info, n.childInfo, err = os.Pipe(); err != nil {
		return nil, err
	}
	if n.childGo, n.run, err = os.Pipe(); err != nil {
		n.close()
		_ = n.childInfo.Close()
		return nil, err
	}
	return n, nil
}

// close closes the driver's ends; the child's are among its files. A sandbox that is not let go then has no users, and ends.
func (n *namespace) close() {
	_ = n.info.Close()
	if n.run != nil {
		_ = n.run.Close()
	}
}

// start keeps what bwrap says of the first process in dir, maps its user ids to those of the host, and lets it go. The
// host's root is never mapped: /proc/sys asks for no more than that id.
func (n *namespace) start(ctx context.Context, dir string) error {
	stop := context.AfterFunc(ctx, func() { _ = n.info.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	data, err := readObject(n.info)
	if err != nil {
		return fmt.Errorf("description by bwrap: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, infoFile), data, 0o600); err != nil {
		return err
	}
	var first initProcess
	if err := json.Unmarshal(data, &first); err != nil || first.PID <= 1 {
		return fmt.Errorf("description by bwrap: %.200q", data)
	}
	for _, file := range []string{"uid_map", "gid_map"} {
		if err := os.WriteFile(fmt.Sprintf("/proc/%d/%s", first.PID, file), []byte(n.ids), 0); err != nil {
			return err
		}
	}
	_, err = n.run.Write([]byte{1})
	return err
}

// readObject reads one JSON object without nested ones; it arrives in pieces, and the writer keeps the pipe open.
func readObject(r io.Reader) ([]byte, error) {
	var all []byte
	piece := make([]byte, 4096)
	for !bytes.ContainsRune(all, '}') {
		n, err := r.Read(piece)
		if all = append(all, piece[:n]...); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// hideProcesses makes /proc of the sandbox show processes to their own user, and to group 0 inside, which is sandboxd's and the
// verifier's. The command line of a verifier may hold what the agent's work is expected to answer.
func hideProcesses(pid, base int) error {
	fs, err := unix.Fspick(unix.AT_FDCWD, fmt.Sprintf("/proc/%d/root/proc", pid), unix.FSPICK_CLOEXEC)
	if err != nil {
		return fmt.Errorf("/proc of the sandbox: %w", err)
	}
	defer unix.Close(fs)
	if err := unix.FsconfigSetString(fs, "gid", fmt.Sprint(base)); err != nil {
		return err
	}
	if err := unix.FsconfigSetString(fs, "hidepid", "invisible"); err != nil {
		return err
	}
	return unix.FsconfigReconfigure(fs)
}
