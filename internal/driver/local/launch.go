package local

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rolloutd/rolloutd/internal/driver"
	"github.com/rolloutd/rolloutd/internal/driver/cgroup"
	"github.com/rolloutd/rolloutd/internal/driver/imageconfig"
	"github.com/rolloutd/rolloutd/internal/driver/launcher"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/image"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

// overlayDir is where the stage mounts an image.
const overlayDir = "image"

// launch holds the open resources for one start of a sandbox.
type launch struct {
	stage   launcher.Config
	program string

	// the stage gets a mount namespace of its own
	private bool

	// and a user namespace, in which an ordinary user may mount an image
	mapped bool

	// and a user namespace, so that an ordinary user may mount an image
	base  int
	guest imageconfig.Guest
	// namespace maps the user ids; nil: bwrap maps the only one
	namespace *namespace
	log       *os.File

	// the child's descriptors from 3 on; the first is that of the stage's configuration, see passStage
	files []*os.File

	// descriptors of the files by which sandboxd's processes enter their cgroups
	cgroups []string

	// descriptor of the folder into which sandboxd forks its processes; 0: none
	work int

	// descriptor of the file that swaps out memory of sandboxd's processes; 0: none
	reclaim int

	// folder into which the child is forked; nil: none
	cgroup *os.File
}

// newLaunch returns a launch without resources.
func (d *Driver) newLaunch() *launch { return &launch{program: d.sandboxd, files: []*os.File{nil}} }

// launch opens all resources. close closes them, also after a failure.
func (d *Driver) launch(ctx context.Context, dir string, spec driver.Spec) (*launch, error) {
	l := d.newLaunch()
	if err := d.fill(ctx, l, dir, spec); err != nil {
		l.close()
		return nil, err
	}

	return l, nil
}

func (d *Driver) fill(ctx context.Context, l *launch, dir string, spec driver.Spec) error {
	if err := d.checkServices(spec); err != nil {
		return err
	}

	use, err := d.use(ctx, spec.Image)
	if err != nil {
		return err
	}

	if use != nil {
		// the sandbox keeps its image
		l.passFile(use.Lock)
	}

	if l.guest, err = imageconfig.Of(imageconfig.Stored(use), spec, d.uids != nil); err != nil {
		return err
	}

	s, err := d.saveState(dir, spec)
	if err != nil {
		return err
	}

	if l.log, err = os.OpenFile(filepath.Join(dir, logFile), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600); err != nil {
		return err
	}

	if err := d.enter(l, s, spec, use != nil); err != nil {
		return err
	}

	if err := d.joinNetwork(l, spec); err != nil {
		return err
	}

	if use != nil {
		at := filepath.Join(cmp.Or(l.stage.Mounts, dir), overlayDir)

		l.stage.Overlay = d.overlay(use, at, l.base, spec, l.guest)
		if l.stage.Overlay.Volumes, err = d.volumes(s.ID, spec); err != nil {
			return err
		}
	}

	if err := d.compose(l, dir, s.ID, spec); err != nil {
		return err
	}

	return l.passStage()
}

// saveState writes the state of a new sandbox into its folder.
func (d *Driver) saveState(dir string, spec driver.Spec) (state, error) {
	here, err := inode(dir)
	if err != nil {
		return state{}, err
	}

	s := state{
		ID: filepath.Base(dir), Labels: spec.Labels, CreatedAt: time.Now(), Folder: here,
		CPU: spec.CPU, MemoryMiB: spec.MemoryMiB, HomeMiB: spec.HomeMiB, Fixed: fixedOf(spec),
	}
	if d.cgroups != nil {
		s.Cgroup = d.cgroupName(s.ID)
	}

	return s, s.write(dir)
}

// passStage passes the stage's configuration to the child, when all else is passed.
func (l *launch) passStage() error {
	config, err := json.Marshal(l.stage)
	if err != nil {
		return err
	}

	l.files[0], err = memfile("stage", config)

	return err
}

// use finds the image; nil: the spec names none.
func (d *Driver) use(ctx context.Context, name string) (*image.Use, error) {
	switch {
	case name == "":
		return nil, nil //nolint:nilnil // no image, no error
	case d.images == nil:
		return nil, fault.Field("image", "%q: this worker has no images; leave it empty for the default", name)
	}

	use, err := d.images.Use(ctx, name)
	if fault.Is(err, fault.NotFound) {
		return nil, fault.Field("image", "%q is not on this host", name)
	}

	return use, err
}

// enter prepares what the stage enters: cgroups, a user id, limits.
func (d *Driver) enter(l *launch, s state, spec driver.Spec, ofImage bool) (err error) {
	l.stage.Env = []string{"PATH=/usr/bin:/bin"}

	l.stage.Rlimits = rlimits(spec)
	if d.cgroups != nil {
		if err := l.enterCgroups(d.cgroups, s.Cgroup, spec); err != nil {
			return fmt.Errorf("cgroup: %w", err)
		}
	}

	if d.uids == nil {
		l.mapped = ofImage
		return nil
	}

	take := d.uids.acquireBlock
	if ofImage {
		take = d.uids.takeImage
	}

	uid, lock, err := take()
	if err != nil {
		return err
	}

	l.passFile(lock)
	l.private, l.base = true, uid

	l.stage.UID, l.stage.Mounts = uid+l.guest.Supervisor(), d.uids.mounts
	if l.work != 0 {
		return fault.Wrap(fault.Unavailable, d.cgroups.Delegate(s.Cgroup, l.stage.UID), "delegate cgroups")
	}

	return nil
}

// ids returns the map of the sandbox's user ids to the host's. It covers all ids of an image.
func (l *launch) ids() string {
	if l.stage.Overlay != nil {
		return fmt.Sprintf("0 %d %d\n", l.base, l.stage.Overlay.IDs)
	}

	return fmt.Sprintf("0 %d 1\n%d %d 1\n%d %d 1\n", l.base, wire.AgentID, l.base+1, wire.VerifierID, l.base+2)
}

// env returns the arguments of sandboxd for the agent's user and the base environment of processes.
func (l *launch) env() ([]string, error) {
	data, err := json.Marshal(l.guest.Env)
	if err != nil {
		return nil, err
	}

	fd, err := l.addData("env", data)

	return append(l.guest.Agent(), "--env-fd", strconv.Itoa(fd)), err
}

// enterCgroups creates the cgroups. The stage enters those of sandboxd, which gets open files to put its
// processes into the others.
func (l *launch) enterCgroups(h *cgroup.Hierarchy, name string, spec driver.Spec) error {
	if err := l.enterCgroupNamespace(h, name); err != nil {
		return fmt.Errorf("namespace: %w", err)
	}

	e, err := h.Create(name, spec)
	if err != nil {
		return err
	}

	l.stage.Cgroups = e.Sandboxd
	if e.Folder != "" {
		if l.cgroup, err = os.Open(e.Folder); err != nil {
			return err
		}
	}

	for _, path := range e.Work {
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return err
		}

		l.cgroups = append(l.cgroups, strconv.Itoa(l.passFile(f)))
	}

	if e.Reclaim != "" {
		f, err := os.OpenFile(e.Reclaim, os.O_WRONLY, 0)
		if err != nil {
			return err
		}

		l.reclaim = l.passFile(f)
	}

	if e.WorkFolder == "" {
		return nil
	}

	work, err := os.Open(e.WorkFolder)
	if err != nil {
		return err
	}

	l.work = l.passFile(work)

	return nil
}

// enterCgroupNamespace creates the sandbox's cgroup namespace. Its root is the parent of both cgroups,
// since the kernel does not let a process fork into a cgroup outside of its namespace.
func (l *launch) enterCgroupNamespace(h *cgroup.Hierarchy, name string) error {
	at, err := h.CreateFolder(name)
	if at == "" || err != nil {
		return err
	}

	folder, err := os.Open(at)
	if err != nil {
		return err
	}
	defer folder.Close()

	ns, err := launcher.CgroupNamespace(l.program, folder)
	if err != nil {
		return err
	}

	l.stage.CgroupNamespace = l.passFile(ns)

	return nil
}

func rlimits(spec driver.Spec) []launcher.Rlimit {
	largest := uint64(max(spec.HomeMiB, spec.TmpMiB)) << 20

	return []launcher.Rlimit{
		{Resource: unix.RLIMIT_CORE, Max: 0},
		{Resource: unix.RLIMIT_NOFILE, Max: 8192},
		{Resource: unix.RLIMIT_FSIZE, Max: largest},
		{Resource: unix.RLIMIT_MEMLOCK, Max: 64 << 10},
		{Resource: unix.RLIMIT_MSGQUEUE, Max: 64 << 10},
	}
}

// cgroupName is unique on this host: two data folders may have sandboxes of the same id.
func (d *Driver) cgroupName(id string) string {
	h := fnv.New32a()
	_, _ = io.WriteString(h, d.dir)

	return fmt.Sprintf("%08x.%s", h.Sum32(), id)
}

// passFile passes a file to the child, and returns its descriptor there.
func (l *launch) passFile(f *os.File) int {
	l.files = append(l.files, f)
	return 2 + len(l.files)
}

// addData passes a descriptor with data to the child.
func (l *launch) addData(name string, data []byte) (int, error) {
	f, err := memfile(name, data)
	if err != nil {
		return 0, err
	}

	return l.passFile(f), nil
}

func (l *launch) close() {
	l.closeFiles()

	if l.namespace != nil {
		l.namespace.close()
	}
}

// closeFiles closes the files that the child has inherited.
func (l *launch) closeFiles() {
	for _, f := range append(l.files, l.log, l.cgroup) {
		if f != nil {
			_ = f.Close()
		}
	}

	l.files, l.log, l.cgroup = nil, nil, nil
}

// memfile returns data as an unnamed file in memory.
func memfile(name string, data []byte) (*os.File, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	if err != nil {
		return nil, err
	}

	f := os.NewFile(uintptr(fd), name)

	_, err = f.Write(data)
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}

	if err != nil {
		return nil, errors.Join(err, f.Close())
	}

	return f, nil
}

// nulSeparated encodes arguments for bwrap's --args.
func nulSeparated(args []string) []byte {
	return []byte(strings.Join(slices.Concat(args, []string{""}), "\x00"))
}
