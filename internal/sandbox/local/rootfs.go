package local

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/sandbox/driver"
)

// root lays out the read-only root file system: the image's or the host's, with our own parts over it. It is put together from
// pieces on bwrap's own empty root, so that mount points need not exist in the image.
func (d *Driver) root(c *composer, spec driver.Spec) {
	image, err := d.images.find(spec.Image)
	switch {
	case err != nil:
		c.err = err
		return
	case image == "":
		hostRoot(c)
	default:
		imageRoot(c, image)
	}
	c.bind(d.sandboxd, sandboxdMount)
	if d.agents != "" {
		c.bind(d.agents, AgentsMount)
	}
}

// hostRoot shows the host's programs and libraries, and nothing else of it: /etc, /var, /home and /run hold secrets.
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
	// What programs in /usr need of /etc to be found and linked.
	for _, path := range []string{"/etc/alternatives", "/etc/ld.so.cache"} {
		if exists(path) {
			c.bind(path, path)
		}
	}
	c.opt("--dir", "/var/lib", "--symlink", "/tmp", "/var/tmp")
}

// like shows name of folder as it is there: a link as a link, a directory by a bind.
func (c *composer) like(folder, name string) {
	source, target := filepath.Join(folder, name), "/"+name
	st, err := os.Lstat(source)
	if err != nil {
		return // not every system has all of them
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

// imageRoot shows an image's folders, but for those that a sandbox has of its own.
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
	// The image's own users stay out: the only one here is ours. A mount point can only be had where the file is.
	for name, text := range etcFiles() {
		if exists(filepath.Join(image, "etc", name)) {
			c.opt("--perms", "0644")
			c.data("--ro-bind-data", name, []byte(text), "/etc/"+name)
		}
	}
}

// etcFiles are the made-up part of /etc.
func etcFiles() map[string]string {
	return map[string]string{
		"passwd": "root:x:0:0:root:/root:/usr/sbin/nologin\n" +
			"user:x:1000:1000:user:/home/user:/bin/bash\n" +
			"verifier:x:1001:1001:verifier:/verifier/home:/bin/bash\n" +
			"nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
		"group":         "root:x:0:\nuser:x:1000:\nverifier:x:1001:\nnogroup:x:65534:\n",
		"hosts":         "127.0.0.1 localhost sandbox\n::1 localhost\n",
		"nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
		"hostname":      "sandbox\n",
	}
}

// images finds root file systems by name. A spec comes from a client, so it can name what the operator put into the folder,
// and never a path.
type images struct {
	standard string // "": made of the host
	dir      string
	name     *regexp.Regexp
}

func newImages(standard, dir string) (images, error) {
	i := images{name: regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]*$`)}
	for _, p := range []struct{ from, to *string }{{&standard, &i.standard}, {&dir, &i.dir}} {
		if *p.from == "" {
			continue
		}
		path, err := existing(*p.from)
		if err != nil {
			return i, fault.Wrap(fault.Invalid, err, "image folder")
		}
		*p.to = path
	}
	return i, nil
}

// find returns the folder of the image, "" for one made of the host.
func (i images) find(name string) (string, error) {
	if name == "" {
		return i.standard, nil
	}
	if i.dir == "" || !i.name.MatchString(name) {
		return "", fault.Field("image", "%q is not known; leave it empty for the default", name)
	}
	path := filepath.Join(i.dir, name)
	if st, err := os.Stat(path); err != nil || !st.IsDir() {
		return "", fault.Field("image", "%q is not a folder in the images folder", name)
	}
	return filepath.EvalSymlinks(path)
}
