// Package hostlibs collects what programs from this host need to run in the root file system of any image:
// the C library of the host with its loader, and bash. Images of another C library, or without a shell,
// have neither.
package hostlibs

import (
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
)

// Mount is where the folder shows in the sandbox of an image.
const Mount = "/opt/rolloutd/host"

// Loader is the path of the loader that programs for glibc on x86-64 name.
const Loader = "/lib64/ld-linux-x86-64.so.2"

// libraries are those of glibc and of its compilers. The others of bash are found by its file.
var libraries = []string{
	"ld-linux-x86-64.so.2", "libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1",
	"libutil.so.1", "libresolv.so.2", "libnss_files.so.2", "libnss_dns.so.2", "libgcc_s.so.1",
	"libstdc++.so.6",
}

// folders are where libraries lie on hosts.
var folders = []string{"/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib64", "/usr/lib64", "/lib", "/usr/lib"}

// Links are how programs in an image find the files: path in the image → target.
type Links struct {
	// links of an image without bash
	Bash map[string]string

	// links of an image without Loader
	C map[string]string
}

// Collect copies the files into a folder of dir that is named after them, and returns its path. An existing
// whole one is used as it is: living sandboxes have it mounted. A host without glibc or bash has fewer files.
func Collect(dir string) (string, Links, error) {
	files, links := choose()
	sum := sha256.New()

	for _, name := range slices.Sorted(maps.Keys(files)) {
		st, err := os.Stat(files[name])
		if err != nil {
			return "", links, err
		}

		fmt.Fprintln(sum, name, files[name], st.Size(), st.ModTime().UnixNano())
	}

	made := filepath.Join(dir, hex.EncodeToString(sum.Sum(nil)[:8]))
	if isWhole(made, files) {
		return made, links, nil
	}

	if err := errors.Join(os.RemoveAll(made), os.MkdirAll(dir, 0o700)); err != nil {
		return "", links, err
	}

	temp, err := os.MkdirTemp(dir, "new-")
	if err != nil {
		return "", links, err
	}
	defer os.RemoveAll(temp)

	for name, source := range files {
		if err := install(source, filepath.Join(temp, name)); err != nil {
			return "", links, err
		}
	}
	// the sandbox's users read it
	if err := os.Chmod(temp, 0o755); err != nil {
		return "", links, err
	}

	err = os.Rename(temp, made)
	// another process was faster
	if errors.Is(err, fs.ErrExist) {
		err = nil
	}

	return made, links, err
}

// isWhole reports whether the folder has the files in their sizes. The machine may have lost its power before they were
// on the disk.
func isWhole(folder string, files map[string]string) bool {
	_, err := os.Stat(folder)

	for name, source := range files {
		want, wantErr := os.Stat(source)
		got, gotErr := os.Stat(filepath.Join(folder, name))

		if err = errors.Join(err, wantErr, gotErr); err != nil || got.Size() != want.Size() {
			return false
		}
	}

	return err == nil
}

// choose returns the files of this host by their names, and the links to them.
func choose() (map[string]string, Links) {
	files, links := map[string]string{}, Links{Bash: map[string]string{}, C: map[string]string{}}

	add := func(name string, to map[string]string) {
		source, ok := find(name)
		if !ok {
			return
		}

		files[name] = source
		// The loader of Debian looks into the first, that of other systems into the second.
		to["/lib/x86_64-linux-gnu/"+name] = Mount + "/" + name
		to["/lib64/"+name] = Mount + "/" + name
	}
	for _, name := range libraries {
		add(name, links.C)
	}

	if bash, err := exec.LookPath("bash"); err == nil {
		files["bash"] = bash
		links.Bash["/bin/bash"] = Mount + "/bash"

		for _, name := range imported(bash) {
			if !slices.Contains(libraries, name) {
				add(name, links.Bash)
			}
		}
	}

	return files, links
}

// imported are the libraries that a program names.
func imported(program string) []string {
	f, err := elf.Open(program)
	if err != nil {
		// a script
		return nil
	}
	defer f.Close()

	names, err := f.ImportedLibraries()
	if err != nil {
		return nil
	}

	return names
}

func find(name string) (string, bool) {
	for _, folder := range folders {
		path := filepath.Join(folder, name)
		if _, err := os.Stat(path); err == nil {
			return path, true
		}
	}

	return "", false
}

func install(from, to string) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}

	defer in.Close()

	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()

	if _, err := io.Copy(out, in); err != nil {
		return err
	}

	return out.Chmod(0o755)
}
