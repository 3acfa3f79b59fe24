package local

import (
	"os"
	"path/filepath"
	"slices"

	"github.com/rolloutd/rolloutd/internal/driver"
	"github.com/rolloutd/rolloutd/internal/driver/hostlibs"
	"github.com/rolloutd/rolloutd/internal/driver/imageconfig"
	"github.com/rolloutd/rolloutd/internal/driver/launcher"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/image"
)

// root sets up the root file system. The stage mounts that of an OCI image. Any other is read-only: the
// folder's or the host's with our own parts on top, assembled on bwrap's empty root, so that mount points
// need not exist in it.
func (d *Driver) root(c *composer) {
	switch {
	case c.launch.stage.Overlay != nil:
		bind := "--bind"
		if g := c.launch.guest; g.Verifier && !g.OwnImage {
			bind = "--ro-bind"
		}

		c.opt(bind, filepath.Join(c.launch.stage.Overlay.At, "root"), "/")
		c.tmpfs(ownMount, 1, "0755")
		c.dir(programsMount)
		c.bind(d.bridge, hostlibs.Mount)
	case d.standard != "":
		c.dir(programsMount)
		imageRoot(c, d.standard)
		python(c, d.standard)
	default:
		c.dir(programsMount)
		hostRoot(c)
		python(c, "/")
	}

	c.bind(d.sandboxd, sandboxdMount)

	if d.agents != "" {
		c.bind(d.agents, AgentsMount)
	}
}

// overlay returns the stage's configuration for the image.
func (d *Driver) overlay(use *image.Use, at string, base int, spec driver.Spec, g imageconfig.Guest) *launcher.Overlay {
	o := g.Overlay()
	o.At, o.Layers, o.SizeMiB, o.Base, o.IDs = at, use.Layers, spec.HomeMiB, base, imageUIDs
	o.Points = append(o.Points, "/proc", "/dev", "/run", "/etc", "/verifier", ownMount)
	o.Links, o.Foreign, o.Unless = d.links.Bash, d.links.C, hostlibs.Loader

	return &o
}

// hostRoot mounts only the host's programs and libraries: /etc, /var, /home and /run hold secrets.
func hostRoot(c *composer) {
	c.bind("/usr", "/usr")
	c.dir("/etc")

	for _, name := range []string{"bin", "sbin", "lib", "lib32", "lib64", "libx32"} {
		c.like("/", name)
	}

	for name, text := range etcFiles() {
		c.opt("--perms", "0644")
		c.data("--file", name, []byte(text), "/etc/"+name)
	}

	c.opt("--symlink", "../usr/lib/os-release", "/etc/os-release")
	// Files of /etc that programs in /usr need to be found and linked.
	for _, path := range []string{"/etc/alternatives", "/etc/ld.so.cache"} {
		if exists(path) {
			c.bind(path, path)
		}
	}

	certificates(c, "/etc/ssl", "certs", "ca-certificates.crt")
	certificates(c, "/etc/pki", "tls", "certs", "ca-bundle.crt")
	c.opt("--dir", "/var/lib", "--symlink", "/tmp", "/var/tmp")
}

// python adds a program python for a root that has python3 alone, since scripts and tasks call it by either
// name. The last folder of the PATH has it, so that it hides no program. An image of a task stays as it is.
func python(c *composer, root string) {
	folders := []string{"/usr/local/bin", "/usr/bin", "/bin"}
	has := func(name string) func(string) bool {
		return func(folder string) bool { return exists(filepath.Join(root, folder, name)) }
	}

	if slices.ContainsFunc(folders, has("python")) {
		return
	}

	if i := slices.IndexFunc(folders, has("python3")); i >= 0 {
		c.opt("--symlink", folders[i]+"/python3", programsMount+"/python")
	}
}

// certificates mounts the host's trusted certificates, by which programs verify hosts that a task may
// reach. It mounts single files, since their folder may hold others.
func certificates(c *composer, path string, names ...string) {
	if !exists(filepath.Join(append([]string{path}, names...)...)) {
		return
	}

	for _, name := range names {
		c.dir(path)
		path = filepath.Join(path, name)
	}

	c.bind(path, path)
}

// like mounts name of folder as it is: a link as a link, a directory by a bind.
func (c *composer) like(folder, name string) {
	source, target := filepath.Join(folder, name), "/"+name

	st, err := os.Lstat(source)
	if err != nil {
		// not every system has all of them
		return
	}

	if st.Mode()&os.ModeSymlink == 0 {
		c.bind(source, target)
		return
	}

	to, err := os.Readlink(source)
	if err != nil {
		c.err = err
		return
	}

	c.opt("--symlink", to, target)
}

// imageRoot mounts an image's folders, except for those that every sandbox has of its own.
func imageRoot(c *composer, image string) {
	entries, err := os.ReadDir(image)
	if err != nil {
		c.err = fault.Wrap(fault.Invalid, err, "image")
		return
	}

	own := []string{"dev", "home", "lost+found", "opt", "proc", "root", "run", "sys", "tmp", "verifier"}
	for _, e := range entries {
		if !slices.Contains(own, e.Name()) {
			c.like(image, e.Name())
		}
	}

	opt, _ := os.ReadDir(filepath.Join(image, "opt"))
	for _, e := range opt {
		if e.Name() != "rolloutd" {
			c.like(image, filepath.Join("opt", e.Name()))
		}
	}
	// Our accounts replace the image's. A file can be mounted only where one exists.
	for name, text := range etcFiles() {
		if exists(filepath.Join(image, "etc", name)) {
			c.opt("--perms", "0644")
			c.data("--ro-bind-data", name, []byte(text), "/etc/"+name)
		}
	}
}

// etcFiles returns the generated files of /etc.
func etcFiles() map[string]string {
	return map[string]string{
		"passwd": "root:x:0:0:root:/root:/usr/sbin/nologin\n" +
			"user:x:1000:1000:user:/home/user:/bin/bash\n" +
			"verifier:x:1001:1001:verifier:/verifier/home:/bin/bash\n" +
			"nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
		"group":         "root:x:0:\nuser:x:1000:\nverifier:x:1001:\nnogroup:x:65534:\n",
		"hosts":         imageconfig.HostsFile,
		"nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
		"hostname":      imageconfig.HostnameFile,
	}
}
