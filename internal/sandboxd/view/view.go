// Package view changes which files the processes of a sandbox see, and how: in a place of the graded work,
// and beside the verifier.
package view

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

// Separate gives the place of the work a /proc of its own, and empty folders in place of the verifier's. A root file system
// that is the verifier's is read-only there.
func Separate(rootOfVerifier bool) error {
	if err := unix.Mount("", "/", "", unix.MS_PRIVATE|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("private mounts: %w", err)
	}

	if rootOfVerifier {
		if err := closeRoot(); err != nil {
			return err
		}
	}

	verifier := filepath.Dir(wire.VerifierHome)
	if err := hide(verifier); err != nil {
		return err
	}

	for _, folder := range []string{wire.VerifierHome, wire.VerifierTests, wire.VerifierLogs, wire.VerifierRun} {
		if err := os.Mkdir(folder, 0o700); err != nil {
			return err
		}
	}

	if err := remount(verifier, readOnly|unix.MS_NOEXEC); err != nil {
		return err
	}

	hidden := fmt.Sprintf("hidepid=invisible,gid=%d", os.Getgid())
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, hidden); err != nil {
		return fmt.Errorf("/proc: %w", err)
	}

	return ProtectProc("/proc")
}

// closeRoot makes the root file system read-only, and hides the folder of the image that has the tests.
func closeRoot() error {
	if err := remount("/", readOnly); err != nil {
		return err
	}

	if err := hide(wire.ImageTests); err != nil {
		return err
	}

	return remount(wire.ImageTests, readOnly|unix.MS_NOEXEC)
}

const readOnly = unix.MS_RDONLY | unix.MS_NOSUID | unix.MS_NODEV

// hide mounts an empty folder over another one.
func hide(folder string) error {
	const flags = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	if err := unix.Mount("rolloutd", folder, "tmpfs", flags, "size=64k,mode=0755"); err != nil {
		return fmt.Errorf("%s: %w", folder, err)
	}

	return nil
}

// ProtectProc makes the parts of a /proc read-only by which settings of the kernel are changed.
func ProtectProc(proc string) error {
	for _, name := range []string{"sys", "sysrq-trigger", "irq", "bus", "fs"} {
		at := filepath.Join(proc, name)

		err := unix.Mount(at, at, "", unix.MS_BIND|unix.MS_REC, "")
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}

		if err == nil {
			err = remount(at, readOnly|unix.MS_NOEXEC)
		}

		if err != nil {
			return fmt.Errorf("%s read-only: %w", at, err)
		}
	}

	return nil
}

// Mount is a mount point of a folder that the agent's user may write.
type Mount struct {
	Path string

	// its options
	flags uintptr
}

// Paths returns the mount points.
func Paths(all []Mount) []string {
	list := make([]string, len(all))
	for i, m := range all {
		list[i] = m.Path
	}

	return list
}

// Shared returns the writable mounts of this process, except the verifier's and the kernel's own.
func Shared() ([]Mount, error) {
	file, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	defer file.Close()

	// Of several mounts at one point the last one is seen.
	visible := map[string]Mount{}

	lines := bufio.NewScanner(file)
	for lines.Scan() {
		m, writable := parse(lines.Text())
		delete(visible, m.Path)

		if writable && !isForeignMount(m.Path) {
			visible[m.Path] = m
		}
	}

	all := slices.Collect(maps.Values(visible))
	slices.SortFunc(all, func(a, b Mount) int { return strings.Compare(a.Path, b.Path) })

	return all, lines.Err()
}

// ShownBelow returns the folders of the root file system that are also mounted at the given paths or below
// them.
func ShownBelow(paths ...string) ([]string, error) {
	file, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	defer file.Close()

	var all []string

	lines := bufio.NewScanner(file)
	for lines.Scan() {
		const rootField, pointField = 3, 4

		fields := strings.Fields(lines.Text())
		if len(fields) <= pointField {
			continue
		}

		folder, point := unescape.Replace(fields[rootField]), unescape.Replace(fields[pointField])
		if folder != "/" && slices.ContainsFunc(paths, func(p string) bool { return within(point, p) }) {
			all = append(all, folder)
		}
	}

	return all, lines.Err()
}

// within reports whether a path is the folder or below it.
func within(p, folder string) bool { return p == folder || strings.HasPrefix(p, folder+"/") }

// isForeignMount reports whether a writable mount is none of the agent's folders. The root of a machine is writable,
// but not for the agent.
func isForeignMount(path string) bool {
	if path == "/" {
		return true
	}

	for _, own := range []string{"/verifier", "/proc", "/sys", "/opt/rolloutd", "/dev"} {
		if within(path, own) && path != "/dev/shm" {
			return true
		}
	}

	return false
}

// parse parses a line of mountinfo: id parent major:minor root point options …; see proc_pid_mountinfo(5).
// For a read-only mount it returns only the point, and false.
func parse(line string) (Mount, bool) {
	const pointField, optionsField = 4, 5

	fields := strings.Fields(line)
	if len(fields) <= optionsField {
		return Mount{}, false
	}

	m := Mount{Path: unescape.Replace(fields[pointField])}
	known := map[string]uintptr{
		"nosuid":      unix.MS_NOSUID,
		"noexec":      unix.MS_NOEXEC,
		"noatime":     unix.MS_NOATIME,
		"nodiratime":  unix.MS_NODIRATIME,
		"nosymfollow": unix.MS_NOSYMFOLLOW,
	}

	for option := range strings.SplitSeq(fields[optionsField], ",") {
		if option == "ro" {
			return Mount{Path: m.Path}, false
		}

		m.flags |= known[option]
	}

	return m, true
}

// unescape undoes the kernel's escapes of white space in a path.
var unescape = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)

// Close makes the kernel follow no link and open no device in the shared folders for this process's mount
// namespace. noExec also forbids to execute files there, for a kernel without Landlock.
func Close(shared []Mount, noExec bool) error {
	for _, m := range shared {
		flags := m.flags | unix.MS_NOSYMFOLLOW | unix.MS_NODEV | unix.MS_NOSUID
		if noExec {
			flags |= unix.MS_NOEXEC
		}

		if err := remount(m.Path, flags); err != nil {
			return err
		}
	}

	// Kernels before Linux 5.10 ignore the option without an error.
	closed, err := Shared()
	if err != nil {
		return err
	}

	for _, m := range closed {
		if m.flags&unix.MS_NOSYMFOLLOW == 0 {
			return fmt.Errorf("%s: the kernel still follows links there; a verifier's sandbox needs Linux 5.10", m.Path)
		}
	}

	return nil
}

func remount(path string, flags uintptr) error {
	if err := unix.Mount("", path, "", unix.MS_REMOUNT|unix.MS_BIND|flags, ""); err != nil {
		return fmt.Errorf("mount options of %s: %w", path, err)
	}

	return nil
}
