package stage

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Overlay is a root file system of an image: its layers, and above them an empty one in memory that takes what is written. It is mounted
// at At/root.
type Overlay struct {
	At      string   `json:"at"`     // an existing folder
	Layers  []string `json:"layers"` // folders, the lowest first
	SizeMiB int      `json:"size_mib"`
	// Base is the user id of this host that the image's id 0 becomes, IDs how many follow it; 0: the ids stay what they are.
	Base int `json:"base"`
	IDs  int `json:"ids"`
	// Points are folders to mount on. What the image has there that is not a folder, a link for instance, is replaced.
	Points []string `json:"points"`
	// Folders are made where the image has nothing. An image in which one of them is anything else, or is reached by a link, is refused.
	Folders []string `json:"folders,omitempty"`
	// Links are made where the image has nothing: path → target. Foreign ones are made only in an image that lacks the file Unless.
	Links   map[string]string `json:"links"`
	Foreign map[string]string `json:"foreign"`
	Unless  string            `json:"unless"`
	// Files are written, whatever the image has: path → text. Accounts are lines added to files of accounts.
	Files    map[string]string    `json:"files"`
	Accounts map[string][]Account `json:"accounts"`
}

// maxInodes bounds the files that a sandbox writes into its root file system.
const maxInodes = 500_000

func mountOverlay(c Config) error {
	if c.Overlay == nil {
		return nil
	}
	return c.Overlay.Mount()
}

// Mount mounts the image, and gives it what a sandbox needs of it.
func (o Overlay) Mount() error {
	defer unix.Umask(unix.Umask(0o022))
	if err := os.Mkdir(o.At, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	options := fmt.Sprintf("size=%dm,nr_inodes=%d,mode=0755", o.SizeMiB, maxInodes)
	if err := unix.Mount("rolloutd", o.At, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
		return fmt.Errorf("tmpfs on %s: %w", o.At, err)
	}
	for _, name := range []string{"root", "upper", "work"} {
		if err := os.Mkdir(filepath.Join(o.At, name), 0o755); err != nil {
			return err
		}
	}
	lower, err := o.mountLayers()
	if err != nil {
		return err
	}
	// Overlayfs shows the owner and the mode of the upper root folder.
	if err := o.own(filepath.Join(o.At, "upper")); err != nil {
		return err
	}
	if err := o.mount(lower); err != nil {
		return err
	}
	return o.Furnish(filepath.Join(o.At, "root"))
}

// mountLayers mounts each layer below At, and returns their names there, the highest first.
func (o Overlay) mountLayers() ([]string, error) {
	ids := -1
	if o.Base != 0 {
		var err error
		if ids, err = idMap(o.Base, o.IDs); err != nil {
			return nil, fmt.Errorf("map of user ids: %w", err)
		}
		defer unix.Close(ids)
	}
	var names []string
	for n := len(o.Layers) - 1; n >= 0; n-- {
		name := strconv.Itoa(n)
		if err := os.Mkdir(filepath.Join(o.At, name), 0o755); err != nil {
			return nil, err
		}
		if err := mountLayer(o.Layers[n], filepath.Join(o.At, name), ids); err != nil {
			return nil, fmt.Errorf("layer %s: %w", o.Layers[n], err)
		}
		names = append(names, name)
	}
	return names, nil
}

// mountLayer mounts a layer, with its files under mapped ids if ids is the descriptor of a map. Linux has that since 5.12, and for
// overlayfs since 5.19.
func mountLayer(from, to string, ids int) error {
	fd, err := unix.OpenTree(unix.AT_FDCWD, from, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return &os.PathError{Op: "open_tree", Path: from, Err: err}
	}
	defer unix.Close(fd)
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV}
	if ids >= 0 {
		attr.Attr_set |= unix.MOUNT_ATTR_IDMAP
		attr.Userns_fd = uint64(ids)
	}
	if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH, &attr); err != nil {
		return fmt.Errorf("mount_setattr (map of user ids): %w", err)
	}
	return unix.MoveMount(fd, "", unix.AT_FDCWD, to, unix.MOVE_MOUNT_F_EMPTY_PATH)
}

// mount mounts the overlay. The names of the layers are short and relative, for all of them must fit into a page.
func (o Overlay) mount(lower []string) error {
	if err := os.Chdir(o.At); err != nil {
		return err
	}
	options := "lowerdir=" + strings.Join(lower, ":") + ",upperdir=upper,workdir=work"
	if o.Base == 0 {
		options += ",userxattr"
	}
	if err := unix.Mount("overlay", "root", "overlay", unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
		return fmt.Errorf("overlay of %d layers: %w", len(lower), err)
	}
	return os.Chdir("/")
}

// own makes the image's root user the owner of a path.
func (o Overlay) own(path string) error {
	if o.Base == 0 {
		return nil
	}
	return os.Lchown(path, o.Base, o.Base)
}
