// Package imagetest makes root file systems for tests from programs of this machine, so that no test needs a registry.
package imagetest

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// Programs lists the programs that the suite of sandbox drivers needs in an image.
func Programs() []string {
	return []string{
		"awk", "base64", "bash", "cat", "chmod", "cp", "cut", "date", "dd", "df", "dirname", "du", "env",
		"find", "grep", "head", "id", "kill", "ln", "ls", "mkdir", "mkfifo", "mv", "nproc", "od", "pgrep",
		"prlimit", "ps", "pwd", "readlink", "rm", "rmdir", "sed", "seq", "setsid", "sh", "sha256sum", "sleep",
		"sort", "stat", "stty", "tail", "tar", "tee", "test", "touch", "tr", "true", "truncate", "tty",
		"uname", "wc", "xargs", "yes",
	}
}

// Fill copies programs of this machine into the root file system in dir, with the libraries that they need.
func Fill(dir string, programs []string) error {
	for _, link := range []string{"bin", "sbin"} {
		if err := os.Symlink("usr/bin", filepath.Join(dir, link)); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
	}

	var paths []string

	for _, program := range programs {
		path, err := exec.LookPath(program)
		if err != nil {
			return err
		}

		if err := install(dir, path, "/usr/bin/"+program); err != nil {
			return err
		}

		paths = append(paths, path)
	}

	return installLibraries(dir, paths)
}

// installLibraries copies the libraries that these programs and libraries need, each once.
func installLibraries(dir string, of []string) error {
	out, err := exec.CommandContext(context.Background(), "ldd", of...).Output()
	if err != nil {
		return err
	}

	installed := map[string]bool{}

	for _, lib := range regexp.MustCompile(`(?m)(/\S+) \(0x`).FindAllStringSubmatch(string(out), -1) {
		if installed[lib[1]] {
			continue
		}

		if err := install(dir, lib[1], lib[1]); err != nil {
			return err
		}

		installed[lib[1]] = true
	}

	return nil
}

// Glibc copies libraries of glibc that every image with glibc has, although few programs are linked with them.
func Glibc(dir string) error {
	for _, name := range []string{"libpthread.so.0", "libdl.so.2", "libm.so.6", "librt.so.1"} {
		if err := install(dir, "/lib/x86_64-linux-gnu/"+name, "/lib/x86_64-linux-gnu/"+name); err != nil &&
			!errors.Is(err, os.ErrNotExist) {
			return err
		}
	}

	return nil
}

// Python copies the system's Python with its standard library.
func Python(dir string) error {
	const system = "/usr/bin/python3"

	out, err := exec.CommandContext(context.Background(), system, "-c", "import sysconfig; print(sysconfig.get_path('stdlib'))").
		Output()
	if err != nil {
		return err
	}

	library := strings.TrimSpace(string(out))

	if err := install(dir, system, "/usr/bin/python3"); err != nil {
		return err
	}

	linked := []string{system}

	err = filepath.WalkDir(library, func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && (e.Name() == "__pycache__" || e.Name() == "test" || e.Name() == "dist-packages" || e.Name() == "site-packages"):
			return fs.SkipDir
		case !e.Type().IsRegular():
			return nil
		case strings.HasSuffix(path, ".so"):
			linked = append(linked, path)
		}

		return install(dir, path, path)
	})
	if err != nil {
		return err
	}

	return installLibraries(dir, linked)
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
