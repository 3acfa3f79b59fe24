package launcher

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Overlay is the root file system of an image: its layers below an empty writable one in memory. It is
// mounted at At/root.
type Overlay struct {
	// an existing folder
	At string `json:"at"`

	// folders, the lowest first
	Layers  []string `json:"layers"`
	SizeMiB int      `json:"size_mib"`
	// Upper is a descriptor of a file system that is mounted at At in place of one of SizeMiB, so that its
	// owner finds what was changed below upper; 0: none.
	Upper int `json:"upper,omitempty"`
	// Base is the host's user id for the image's id 0; IDs is the number of mapped ids. 0: ids are not mapped.
	Base int `json:"base"`
	IDs  int `json:"ids"`
	// Points are mount points. Anything in the image that is not a folder there, for instance a link, is replaced.
	Points []string `json:"points"`
	// Shared are those of them in which every user may make files.
	Shared []string `json:"shared,omitempty"`
	// Folders are created if missing. An image in which one of them is not a folder, or is reached through
	// a link, is refused.
	Folders []string `json:"folders,omitempty"`
	// Volumes are folders of the host that are mounted at At/NAME, with mapped ids: name → folder.
	Volumes map[string]string `json:"volumes,omitempty"`
	// Instead are links that replace what the image has at their paths: path → target.
	Instead map[string]string `json:"instead,omitempty"`
	// Links are created if missing: path → target. Foreign ones are created only in an image without the file Unless.
	Links   map[string]string `json:"links"`
	Foreign map[string]string `json:"foreign"`
	Unless  string            `json:"unless"`
	// Files replace those of the image: path → text. Accounts are lines added to account files.
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

// Mount mounts the image and adds the sandbox's files.
func (o Overlay) Mount() error {
	defer unix.Umask(unix.Umask(0o022))

	if err := os.Mkdir(o.At, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}

	if err := o.mountMemory(); err != nil {
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
	// The upper root folder determines the owner and the mode of the overlay's root.
	if err := o.chownToRoot(filepath.Join(o.At, "upper")); err != nil {
		return err
	}

	if err := o.mount(lower); err != nil {
		return err
	}

	if err := o.mountVolumes(); err != nil {
		return err
	}

	return o.AddTo(filepath.Join(o.At, "root"))
}

// mountVolumes mounts the volumes, whose files have the ids of the image.
func (o Overlay) mountVolumes() error {
	if len(o.Volumes) == 0 {
		return nil
	}

	ids, err := idMap(o.Base, o.IDs)
	if err != nil {
		return fmt.Errorf("map of user ids: %w", err)
	}
	defer unix.Close(ids)

	for name, folder := range o.Volumes {
		at := filepath.Join(o.At, name)
		if err := os.Mkdir(at, 0o755); err != nil {
			return err
		}

		if err := mountMapped(folder, at, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV, ids); err != nil {
			return fmt.Errorf("volume (needs Linux 6.3): %w", err)
		}
	}

	return nil
}

// mountMemory mounts the file system that gets what is written.
func (o Overlay) mountMemory() error {
	if o.Upper != 0 {
		defer unix.Close(o.Upper)
		return unix.MoveMount(o.Upper, "", unix.AT_FDCWD, o.At, unix.MOVE_MOUNT_F_EMPTY_PATH)
	}

	options := fmt.Sprintf("size=%dm,nr_inodes=%d,mode=0755", o.SizeMiB, maxInodes)

	return unix.Mount("rolloutd", o.At, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, options)
}

// Memory returns a new file system in memory that is mounted nowhere, for Overlay.Upper. It lives until its last
// descriptor and mount are gone.
func Memory(mib int) (*os.File, error) {
	fs, err := unix.Fsopen("tmpfs", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("tmpfs: %w", err)
	}
	defer unix.Close(fs)

	for option, value := range map[string]string{
		"size": strconv.Itoa(mib) + "m", "nr_inodes": strconv.Itoa(maxInodes), "mode": "0755",
	} {
		if err := unix.FsconfigSetString(fs, option, value); err != nil {
			return nil, fmt.Errorf("option %s of tmpfs: %w", option, err)
		}
	}

	if err := unix.FsconfigCreate(fs); err != nil {
		return nil, fmt.Errorf("tmpfs: %w", err)
	}

	fd, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV)
	if err != nil {
		return nil, fmt.Errorf("tmpfs: %w", err)
	}

	return os.NewFile(uintptr(fd), "tmpfs"), nil
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

		err := mountMapped(o.Layers[n], filepath.Join(o.At, name), layerAttributes, ids)
		if err != nil {
			return nil, fmt.Errorf("layer %s: %w", o.Layers[n], err)
		}

		names = append(names, name)
	}

	return names, nil
}

const layerAttributes = unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV

// mountMapped mounts a folder, with mapped ids if ids is the descriptor of a map. Linux supports that since
// 5.12, for overlayfs since 5.19, and for file systems in memory since 6.3.
func mountMapped(from, to string, attributes uint64, ids int) error {
	fd, err := unix.OpenTree(unix.AT_FDCWD, from, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return &os.PathError{Op: "open_tree", Path: from, Err: err}
	}
	defer unix.Close(fd)

	attr := unix.MountAttr{Attr_set: attributes}
	if ids >= 0 {
		attr.Attr_set |= unix.MOUNT_ATTR_IDMAP
		attr.Userns_fd = uint64(ids)
	}

	if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH, &attr); err != nil {
		return fmt.Errorf("mount_setattr (map of user ids): %w", err)
	}

	return unix.MoveMount(fd, "", unix.AT_FDCWD, to, unix.MOVE_MOUNT_F_EMPTY_PATH)
}

// mount mounts the overlay. The names of the layers are short and relative, since together they must fit into a page.
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

// chownToRoot makes the image's root user the owner of a path.
func (o Overlay) chownToRoot(path string) error {
	if o.Base == 0 {
		return nil
	}

	return os.Lchown(path, o.Base, o.Base)
}
