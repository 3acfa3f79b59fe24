package local

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// namespace is the driver's side of creating a user namespace with several user ids: an unprivileged
// process may map only its own. bwrap creates the namespace, describes it on a pipe, and waits for a byte
// on another pipe.
type namespace struct {
	info, childInfo *os.File
	run, childGo    *os.File

	// the map in the kernel's format
	ids string
}

func newNamespace(ids string) (*namespace, error) {
	n := &namespace{ids: ids}

	var err error
	if n.info, n.childInfo, err = infoPipe(); err != nil {
		return nil, err
	}

	if n.childGo, n.run, err = os.Pipe(); err != nil {
		n.close()
		_ = n.childInfo.Close()

		return nil, err
	}

	return n, nil
}

// infoPipe makes the pipe of the description. The child's end can read, too: bwrap would be killed by its write to a pipe
// without a reader, if the driver has died, and the process that it describes would wait for it for ever.
func infoPipe() (driver, child *os.File, err error) {
	driver, writer, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	defer writer.Close()

	child, err = os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", writer.Fd()), os.O_RDWR, 0)
	if err != nil {
		return nil, nil, errors.Join(err, driver.Close())
	}

	return driver, child, nil
}

// close closes the driver's ends; the child's are among its files. A sandbox that was not started then has
// no users and ends.
func (n *namespace) close() {
	_ = n.info.Close()
	if n.run != nil {
		_ = n.run.Close()
	}
}

// start stores bwrap's description of the first process in dir, maps its user ids to the host's, and starts
// it. It never maps the host's root, whose id would be enough to write to /proc/sys.
func (n *namespace) start(ctx context.Context, dir string) error {
	first, err := n.describe(ctx, dir)
	if err != nil {
		return err
	}

	return n.admit(first)
}

// describe stores bwrap's description of the first process in dir.
func (n *namespace) describe(ctx context.Context, dir string) (initProcess, error) {
	stop := context.AfterFunc(ctx, func() { _ = n.info.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()

	var first initProcess

	data, err := readObject(n.info)
	if err != nil {
		return first, fmt.Errorf("description by bwrap: %w", err)
	}

	if err := os.WriteFile(filepath.Join(dir, infoFile), data, 0o600); err != nil {
		return first, err
	}

	if err := json.Unmarshal(data, &first); err != nil || first.PID <= 1 {
		return first, fmt.Errorf("description by bwrap: %.200q", data)
	}

	return first, nil
}

// admit maps the user ids of the first process and starts it.
func (n *namespace) admit(first initProcess) error {
	for _, file := range []string{"uid_map", "gid_map"} {
		if err := os.WriteFile(fmt.Sprintf("/proc/%d/%s", first.PID, file), []byte(n.ids), 0); err != nil {
			return err
		}
	}

	_, err := n.run.Write([]byte{1})

	return err
}

// readObject reads one JSON object without nested ones. It arrives in pieces, and the writer keeps the pipe open.
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

// hideProcesses makes the sandbox's /proc show processes only to their own user, and to group 0 inside,
// which sandboxd and the verifier have. A verifier's command line may contain expected answers.
func hideProcesses(pid, base int) error {
	return reconfigure(pid, "/proc", mountOption{"gid", strconv.Itoa(base)}, mountOption{"hidepid", "invisible"})
}

// maxTerminals bounds the pseudo-terminals of a sandbox.
const maxTerminals = "64"

// limitTerminals keeps a sandbox from taking the pseudo-terminals of all others: the kernel has some 3,000
// for all of them. The other options are those that bwrap mounts with; kernels with the older interface
// reset what is not named.
func limitTerminals(pid int) error {
	return reconfigure(pid, "/dev/pts", mountOption{
		"mode", "620",
	}, mountOption{"ptmxmode", "0666"}, mountOption{"max", maxTerminals})
}

type mountOption struct{ name, value string }

// reconfigure changes options of the file system that the process of that number has at path.
func reconfigure(pid int, path string, options ...mountOption) error {
	fs, err := unix.Fspick(unix.AT_FDCWD, fmt.Sprintf("/proc/%d/root%s", pid, path), unix.FSPICK_CLOEXEC)
	if err != nil {
		return fmt.Errorf("%s of the sandbox: %w", path, err)
	}
	defer unix.Close(fs)

	for _, o := range options {
		if err := unix.FsconfigSetString(fs, o.name, o.value); err != nil {
			return fmt.Errorf("option %s of %s of the sandbox: %w", o.name, path, err)
		}
	}

	return unix.FsconfigReconfigure(fs)
}
