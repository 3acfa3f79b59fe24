// Package imagetest makes root file systems for tests out of programs of this machine, so that no test needs a registry.
package imagetest

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
)

// Programs are those that the suite of sandbox drivers needs in an image.
func Programs() []string {
	return []string{
		"awk", "base64", "bash", "cat", "chmod", "cp", "cut", "date", "dd", "df", "dirname", "du", "env", "find", "grep", "head", "id", "kill", "ln", "ls",
		"mkdir", "mkfifo", "mv", "nproc", "od", "pgrep", "prlimit", "ps", "pwd", "readlink", "rm", "rmdir", "sed", "seq", "setsid", "sh", "sha256sum",
		"sleep", "sort", "stat", "stty", "tail", "tar", "tee", "test", "touch", "tr", "true", "truncate", "tty", "uname", "wc", "xargs", "yes",
	}
}

// Fill copies programs of this machine into the root file system in dir, with the libraries that they need.
func Fill(dir string, programs []string) error {
	for _, link := range []string{"bin", "sbin"} {
		if err := os.Symlink("usr/bin", filepath.Join(dir, link)); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
	}
	for _, program := range programs {
		path, err := exec.LookPath(program)
		if err != nil {
			return err
		}
		if err := install(dir, path, "/usr/bin/"+program); err != nil {
			return err
		}
		out, err := exec.CommandContext(context.Background(), "ldd", path).Output()
		if err != nil {
			return err
		}
		for _, lib := range regexp.MustCompile(`(?m)(/\S+) \(0x`).FindAllStringSubmatch(string(out), -1) {
			if err := install(dir, lib[1], lib[1]); err != nil {
				return err
			}
		}
	}
	return nil
}

// Glibc copies the libraries of glibc that every image with glibc has, and that few programs name.
func Glibc(dir string) error {
	for _, name := range []string{"libpthread.so.0", "libdl.so.2", "libm.so.6", "librt.so.1"} {
		if err := install(dir, "/lib/x86_64-linux-gnu/"+name, "/lib/x86_64-linux-gnu/"+name); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}

func install(dir, from, to string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(to)), 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, to), data, 0o755)
}
