package nested

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/rolloutd/rolloutd/internal/driver/launcher"
	"github.com/rolloutd/rolloutd/internal/sandboxd/view"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

// Image is the part of a container's image that a sandbox uses.
type Image struct {
	// Root has the additions to the image. This package sets its layers and its place: the container's root
	// is the only layer.
	Root launcher.Overlay `json:"root"`
	// Agent are the arguments of sandboxd for the agent's user.
	Agent []string `json:"agent"`
	// Names are further names of folders of the image, in the home: name → folder.
	Names map[string]string `json:"names"`
	// Changed are folders that the agent changed elsewhere. Those with programs of the image are left out;
	// "": one that is left out already.
	Changed []string `json:"changed,omitempty"`
	// Verifier makes the root file system read-only, except for Writable and Changed.
	Verifier bool     `json:"verifier"`
	Writable []string `json:"writable"`
	// OwnImage leaves it writable for the verifier, whose tests are in the image's folder for them.
	OwnImage bool `json:"own_image,omitempty"`
}

// scratch is a folder of the container in memory, in which the new root is assembled.
const scratch = "/tmp"

// movedPath is a part of the old root, or of the image before it is the root, that is moved into the new root.
type movedPath struct {
	// descriptor of a copy of the mount
	tree int
	at   string
}

// copyMount copies the mount of a folder.
func copyMount(from, at string) (movedPath, error) {
	tree, err := unix.OpenTree(unix.AT_FDCWD, from, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return movedPath{}, &os.PathError{Op: "open_tree", Path: from, Err: err}
	}

	return movedPath{tree, at}, nil
}

func (g movedPath) set() error {
	if err := os.MkdirAll(g.at, 0o755); err != nil {
		return err
	}

	if err := unix.MoveMount(g.tree, "", unix.AT_FDCWD, g.at, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return &os.PathError{Op: "move_mount", Path: g.at, Err: err}
	}

	return nil
}

// enter mounts the image below a layer in memory, and makes that the root, without the container's own
// mounts. It returns the paths to set in the root after its folders are mounted.
func (i *Image) enter(p places) ([]movedPath, error) {
	o := i.Root

	o.At, o.Layers = scratch, []string{"/"}
	if err := o.Mount(); err != nil {
		return nil, err
	}

	root := filepath.Join(scratch, "root")
	if !i.Verifier {
		if err := unlinkTests(root); err != nil {
			return nil, err
		}
	}

	grafts, err := i.movedPaths(root)
	if err != nil {
		return nil, err
	}

	if i.Verifier && !i.OwnImage {
		if root, err = readOnlyView(root); err != nil {
			return nil, err
		}
	}
	// the kernel mounts it only while another one is visible
	if err := p.proc(filepath.Join(root, "proc")); err != nil {
		return nil, err
	}

	if err := view.ProtectProc(filepath.Join(root, "proc")); err != nil {
		return nil, err
	}

	if err := unix.Mount("/dev", filepath.Join(root, "dev"), "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return nil, fmt.Errorf("devices of the container: %w", err)
	}

	return grafts, pivot(root)
}

// unlinkTests removes paths that test scripts use, from an agent's sandbox, which has no tests: a task may
// use these names.
func unlinkTests(at string) error {
	root, err := os.OpenRoot(at)
	if err != nil {
		return err
	}
	defer root.Close()

	for at, target := range wire.TestLinks() {
		name := strings.TrimPrefix(at, "/")
		if to, err := root.Readlink(name); err != nil || to != target {
			continue
		}

		if err := root.Remove(name); err != nil {
			return err
		}
	}

	return nil
}

// movedPaths takes the sandbox's own files, so that root of the image cannot change them, and the image's
// folders that appear under other names.
func (i *Image) movedPaths(root string) ([]movedPath, error) {
	own, err := copyMount(filepath.Join(scratch, "0", Folder), Folder)
	if err != nil {
		return nil, err
	}

	all := []movedPath{own}

	shown, err := i.shown(root)
	if err != nil {
		return nil, err
	}

	for _, shown := range shown {
		g, err := copyMount(filepath.Join(root, shown[0]), shown[1])
		if err != nil {
			return nil, err
		}

		all = append(all, g)
	}

	return all, nil
}

// shown returns folders of the image with their mount points: below the home, with which they are copied to
// the verifier, and in a verifier's sandbox over the read-only original.
func (i *Image) shown(root string) ([][2]string, error) {
	var all [][2]string

	if i.Verifier {
		for _, p := range i.Writable {
			all = append(all, [2]string{p, p})
		}
	}

	if i.OwnImage {
		all = append(all, [2]string{wire.ImageTests, wire.VerifierTests})
	}

	for _, name := range slices.Sorted(maps.Keys(i.Names)) {
		all = append(all, [2]string{i.Names[name], name})
	}

	for n, p := range i.Changed {
		if p == "" {
			continue
		}

		programs, err := launcher.HoldsPrograms(root, p)
		if err != nil {
			return nil, fmt.Errorf("look for programs in %s of the image: %w", p, err)
		}

		if !programs {
			all = append(all, [2]string{p, wire.AgentChanged + "/" + strconv.Itoa(n)}, [2]string{p, p})
		}
	}

	return all, nil
}

// readOnlyView mounts a folder a second time, read-only.
func readOnlyView(root string) (string, error) {
	at := filepath.Join(scratch, "view")

	g, err := copyMount(root, at)
	if err != nil {
		return "", err
	}

	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV}
	if err := unix.MountSetattr(g.tree, "", unix.AT_EMPTY_PATH, &attr); err != nil {
		return "", fmt.Errorf("root file system read-only: %w", err)
	}

	return at, g.set()
}

// pivot makes a mount the root and removes the old root.
func pivot(root string) error {
	if err := os.Chdir(root); err != nil {
		return err
	}

	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("pivot_root: %w", err)
	}

	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("take the old root away: %w", err)
	}

	return os.Chdir("/")
}
