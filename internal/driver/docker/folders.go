package docker

import (
	"context"
	"errors"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/api/types/system"
	"github.com/moby/moby/client"

	"github.com/rolloutd/rolloutd/internal/driver"
	"github.com/rolloutd/rolloutd/internal/driver/imageconfig"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

// folder is a writable folder of the image. It is mounted over the image's folder and filled from a copy.
type folder struct {
	path string

	// further paths of the folder
	names []string

	// false: empty, or filled as a part of another folder
	filled bool

	// the image declares it as a volume
	volume bool
}

// foldersOf returns the writable folders of a task's image: the home, that for temporary files, the workdir and
// further graded ones, with their names below the home; and the volumes that an image declares.
func foldersOf(g imageconfig.Guest, ofTask bool, volumes map[string]struct{}) ([]folder, error) {
	var all []folder

	paths := g.Writable()
	if ofTask {
		paths = append(paths, wire.AgentHome, wire.Tmp)
	}

	slices.Sort(paths)

	names := g.Names()

	for _, p := range slices.Compact(paths) {
		f := folder{path: p, filled: true}

		for _, name := range slices.Sorted(maps.Keys(names)) {
			if names[name] == p {
				f.names = append(f.names, name)
			}
		}

		all = append(all, f)
	}

	for p := range volumes {
		p = path.Clean("/" + p)

		known := slices.IndexFunc(all, func(f folder) bool { return f.path == p })
		switch {
		case overlaps(p, ownMount, "/proc", "/sys", "/dev", "/verifier"):
			return nil, fault.Field("image", "declares the volume %.100q, which overlaps a folder of the sandbox", p)
		case known >= 0:
			all[known].volume = true
		default:
			all = append(all, folder{
				path:   p,
				volume: true,
				filled: !overlaps(p, wire.AgentHome, "/tmp", "/var/tmp", "/run"),
			})
		}
	}

	slices.SortFunc(all, func(a, b folder) int { return strings.Compare(a.path, b.path) })

	for n := range all {
		all[n].within(all[:n])
		// a user of the image uses the image's folder itself
		all[n].filled = all[n].filled && g.Account == nil
	}

	return all, nil
}

// overlaps reports whether the path equals, contains or is within one of the others.
func overlaps(p string, others ...string) bool {
	return slices.ContainsFunc(others, func(o string) bool {
		return p == "/" || p == o || strings.HasPrefix(p, o+"/") || strings.HasPrefix(o, p+"/")
	})
}

// within adds the folder's paths in the folders around it.
func (f *folder) within(others []folder) {
	for _, o := range others {
		rest, ok := strings.CutPrefix(f.path, o.path+"/")
		if !ok {
			continue
		}

		f.filled = f.filled && !o.filled
		for _, name := range o.names {
			if at := name + "/" + rest; !slices.Contains(f.names, at) {
				f.names = append(f.names, at)
			}
		}
	}
}

// filled returns the folders with a copy of their own.
func filled(all []folder) []folder {
	return slices.DeleteFunc(slices.Clone(all), func(f folder) bool { return !f.filled })
}

// checkSizes refuses folders of the image that exceed the sandbox's memory.
func checkSizes(folders []folder, sizes []int64, spec driver.Spec) error {
	sum := int64(0)

	for n, f := range folders {
		if n >= len(sizes) {
			break
		}

		if sum += sizes[n]; sizes[n] > int64(spec.HomeMiB)<<20 {
			return fault.Field("disk_mib", "is %d, and %s of the image has %d MiB", spec.HomeMiB, f.path, sizes[n]>>20)
		}
	}

	if sum > 0 && sum >= int64(spec.MemoryMiB)<<20 {
		return fault.Field("memory_mib",
			"is %d, and the folders of the image that can be written to have %d MiB, which the backend docker keeps in memory",
			spec.MemoryMiB, sum>>20)
	}

	return nil
}

// addFolders adds the folders to a container. A folder with several names is a volume of the engine, also in memory.
func (d *Driver) addFolders(host *container.HostConfig, info *system.Info, id string, spec driver.Spec, folders []folder) {
	options := "nosuid,nodev,mode=0755,size=" + strconv.Itoa(spec.HomeMiB) + "m" + ownedByRoot(info)

	for n, f := range folders {
		if len(f.names) == 0 {
			if _, ours := host.Tmpfs[f.path]; !ours {
				host.Tmpfs[f.path] = tmpfs(spec.HomeMiB, "1777")
			}

			continue
		}

		delete(host.Tmpfs, f.path)

		volume := mount.Mount{
			Type: mount.TypeVolume, Source: d.container(id) + "-" + strconv.Itoa(n),
			VolumeOptions: &mount.VolumeOptions{
				NoCopy: true, Labels: map[string]string{labelSandbox: id, labelOwner: d.owner},
				DriverConfig: &mount.Driver{Name: "local", Options: map[string]string{
					"type": "tmpfs", "device": "tmpfs", "o": options,
				}},
			},
		}
		for _, volume.Target = range append([]string{f.path}, f.names...) {
			host.Mounts = append(host.Mounts, volume)
		}
	}
}

// rootIDs matches the ids of the containers' root, in the data folder's name of a daemon that remaps users.
var rootIDs = regexp.MustCompile(`/(\d+)\.(\d+)$`)

// ownedByRoot returns the options that make the container's root the owner of a volume in memory. The
// daemon mounts the volume as the root of its machine, an id that the container lacks if users are
// remapped.
func ownedByRoot(info *system.Info) string {
	ids := rootIDs.FindStringSubmatch(info.DockerRootDir)
	if ids == nil || !slices.Contains(info.SecurityOptions, "name=userns") {
		return ""
	}

	return ",uid=" + ids[1] + ",gid=" + ids[2]
}

// fills returns sandboxd's map of folders to fill and their copies.
func fills(folders []folder) map[string]string {
	all := map[string]string{}
	for n, f := range filled(folders) {
		all[copyOf(n)] = f.path
	}

	return all
}

// removeVolumes removes the volumes of a sandbox whose container is gone.
func (d *Driver) removeVolumes(ctx context.Context, id string) error {
	all, err := d.docker.VolumeList(ctx, client.VolumeListOptions{
		Filters: client.Filters{}.Add("label", labelSandbox+"="+id, labelOwner+"="+d.owner),
	})
	for _, v := range all.Items {
		if _, removeErr := d.docker.VolumeRemove(
			ctx,
			v.Name,
			client.VolumeRemoveOptions{},
		); !cerrdefs.IsNotFound(removeErr) {
			err = errors.Join(err, removeErr)
		}
	}

	return err
}

// sweepVolumes removes old volumes without a container, of every owner.
func (d *Driver) sweepVolumes(ctx context.Context) {
	all, err := d.docker.VolumeList(
		ctx,
		client.VolumeListOptions{Filters: client.Filters{}.Add("label", labelSandbox).Add("dangling", "true")},
	)
	for _, v := range all.Items {
		made, parseErr := time.Parse(time.RFC3339, v.CreatedAt)
		if parseErr != nil || time.Since(made) < d.o.KeepDead {
			continue
		}

		if _, removeErr := d.docker.VolumeRemove(
			ctx,
			v.Name,
			client.VolumeRemoveOptions{},
		); !cerrdefs.IsNotFound(removeErr) &&
			!cerrdefs.IsConflict(removeErr) {
			err = errors.Join(err, removeErr)
		}
	}

	if err != nil {
		d.log.Warn("volumes of dead sandboxes", "error", err)
	}
}
