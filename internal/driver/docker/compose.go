package docker

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"maps"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"

	units "github.com/docker/go-units"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/api/types/system"
	"github.com/moby/moby/client"

	"github.com/rolloutd/rolloutd/internal/driver"
	"github.com/rolloutd/rolloutd/internal/driver/imageconfig"
	"github.com/rolloutd/rolloutd/internal/driver/nested"
	"github.com/rolloutd/rolloutd/internal/driver/usage"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

// Paths in a sandbox.
const (
	ownMount      = "/opt/rolloutd"
	sandboxdPath  = ownMount + "/sandboxd"
	controlMount  = ownMount + "/control"
	controlFile   = "control.sock"
	controlSocket = controlMount + "/" + controlFile
)

// sandboxdThreads is the number of threads reserved for sandboxd and the carriers of its connections within
// the limit of processes.
const sandboxdThreads = 96

// capabilities are those of sandboxd at its start. It keeps those to change users and to kill; the agent has none.
func capabilities() []string {
	return []string{"SETUID", "SETGID", "SETPCAP", "KILL", "CHOWN", "DAC_OVERRIDE", "FOWNER"}
}

// compose returns the configuration of a sandbox's container.
func (d *Driver) compose(
	ctx context.Context,
	id string,
	spec driver.Spec,
	from sandboxImage,
	g imageconfig.Guest,
) (client.ContainerCreateOptions, error) {
	info, err := d.daemon(ctx)
	if err != nil {
		return client.ContainerCreateOptions{}, err
	}

	labels, err := d.labels(id, spec)
	if err != nil {
		return client.ContainerCreateOptions{}, err
	}

	host, err := d.hostConfig(spec, info, id, g)
	if err != nil {
		return client.ContainerCreateOptions{}, err
	}

	var args []string

	if g.Account != nil {
		cover(host, from.folders)

		args, err = d.encloseArgs(id, spec, g, info)
	} else {
		d.addFolders(host, info, id, spec, from.folders)
		args, err = d.serveArgs(id, spec, g, info, from.folders)
	}

	if err != nil {
		return client.ContainerCreateOptions{}, err
	}

	return client.ContainerCreateOptions{
		Name: d.container(id),
		Config: &container.Config{
			Hostname: "sandbox", User: "0:0", Image: from.id, WorkingDir: "/", Labels: labels,
			Entrypoint: []string{sandboxdPath}, Cmd: args,
			Env:         from.unsetEnv(), // sandboxd starts without the image's environment
			Healthcheck: &container.HealthConfig{Test: []string{"NONE"}},
		},
		HostConfig: host,
	}, nil
}

// hostConfig returns the hardening options and the sizes of the spec.
func (d *Driver) hostConfig(
	spec driver.Spec,
	info *system.Info,
	id string,
	g imageconfig.Guest,
) (*container.HostConfig, error) {
	filter, err := filterProfile(g.Account != nil)
	if err != nil {
		return nil, err
	}

	host := &container.HostConfig{
		NetworkMode: "none", IpcMode: "private", CgroupnsMode: "private", Runtime: d.o.Runtime,
		CapDrop: []string{"ALL"}, CapAdd: capabilities(),
		SecurityOpt:    []string{"no-new-privileges:true", "seccomp=" + filter},
		ReadonlyRootfs: true,
		Tmpfs:          folders(spec, d.local(info)),
		ShmSize:        int64(max(spec.TmpMiB/4, 1)) << 20,
		Mounts:         d.mounts(id, info),
		// Logs of sandboxd; the agent's output is not among them.
		LogConfig: container.LogConfig{
			Type:   "json-file",
			Config: map[string]string{"max-size": "256k", "max-file": "1"},
		},
		Resources: resources(spec, info),
	}
	switch {
	case g.Account != nil:
		mayEnclose(host, info)
	case spec.IsVerifier():
		mayMount(host, info)
	}

	return host, nil
}

// mayMount allows sandboxd, before it starts any process, to make the place of the work in a verifier's container.
func mayMount(host *container.HostConfig, info *system.Info) {
	host.CapAdd = append(host.CapAdd, "SYS_ADMIN")
	// the kernel does not mount /proc for such a user while part of one is covered
	if mapsUsers(info) {
		host.MaskedPaths, host.ReadonlyPaths = []string{}, []string{}
	}

	if slices.ContainsFunc(info.SecurityOptions, func(o string) bool { return strings.HasPrefix(o, "name=apparmor") }) {
		// the engine's profile forbids every mount
		host.SecurityOpt = append(host.SecurityOpt, "apparmor=unconfined")
	}
}

// mayEnclose allows the container's first process, sandboxd for a user of the image, to mount the image
// again in namespaces of its own. The container's root is an unprivileged user of the daemon's machine.
// Processes in these namespaces do not have this right; see package nested.
func mayEnclose(host *container.HostConfig, info *system.Info) {
	mayMount(host, info)
	host.CapAdd = append(host.CapAdd, "FSETID", "NET_BIND_SERVICE")
	host.Tmpfs = map[string]string{"/tmp": tmpfs(1, "1777"), controlMount: tmpfs(1, "0700")}
}

// cover prevents the engine from creating volumes for those that the image declares: in the sandbox they
// are folders of the image.
func cover(host *container.HostConfig, folders []folder) {
	for _, f := range folders {
		if _, ours := host.Tmpfs[f.path]; !ours && f.volume {
			host.Tmpfs[f.path] = tmpfs(1, "0755")
		}
	}
}

// folders returns the writable folders, all in memory and with a size.
func folders(spec driver.Spec, local bool) map[string]string {
	all := map[string]string{
		wire.AgentHome: tmpfs(spec.HomeMiB, "0755"), "/verifier": tmpfs(spec.HomeMiB, "0755"),
		"/tmp": tmpfs(spec.TmpMiB, "1777"), "/var/tmp": tmpfs(spec.TmpMiB, "1777"), "/run": tmpfs(16, "0755"),
	}
	if !local {
		all[controlMount] = tmpfs(1, "0700")
	}

	return all
}

// sized returns the paths of the writable folders, including the image's.
func sized(spec driver.Spec, ofImage []folder) []string {
	paths := slices.AppendSeq([]string{"/dev/shm"}, maps.Keys(folders(spec, true)))
	for _, f := range ofImage {
		paths = append(paths, f.path)
	}

	slices.Sort(paths)

	return slices.Compact(paths)
}

func tmpfs(mib int, mode string) string {
	return "rw,exec,nosuid,nodev,size=" + strconv.Itoa(mib) + "m,mode=" + mode
}

// mounts returns the folders of this machine that a sandbox sees.
func (d *Driver) mounts(id string, info *system.Info) []mount.Mount {
	if !d.local(info) {
		return nil
	}

	all := []mount.Mount{{Type: mount.TypeBind, Source: d.folder(id), Target: controlMount}}
	if st, err := os.Stat(d.o.AgentsDir); d.o.AgentsDir != "" && err == nil && st.IsDir() {
		all = append(all, mount.Mount{Type: mount.TypeBind, Source: d.o.AgentsDir, Target: AgentsMount, ReadOnly: true})
	}

	return all
}

// local reports whether the daemon sees the files of this machine with the same owners. Then root's socket
// folder is also root's inside.
func (d *Driver) local(info *system.Info) bool {
	if d.o.Remote || !d.o.Daemon.here() || os.Geteuid() != 0 {
		return false
	}

	return !mapsUsers(info)
}

// mapsUsers reports whether the daemon maps the users of containers, including root, to other users of its machine.
func mapsUsers(info *system.Info) bool {
	return slices.ContainsFunc(info.SecurityOptions, func(option string) bool {
		return strings.HasPrefix(option, "name=userns") || strings.HasPrefix(option, "name=rootless")
	})
}

func resources(spec driver.Spec, info *system.Info) container.Resources {
	pids, largest := int64(spec.PIDs+sandboxdThreads), int64(max(spec.HomeMiB, spec.TmpMiB))<<20

	r := container.Resources{
		Memory: int64(spec.MemoryMiB) << 20, MemorySwap: int64(spec.MemoryMiB) << 20, PidsLimit: &pids,
		// The engine refuses more cores than the machine has.
		NanoCPUs: int64(math.Round(min(spec.CPU, float64(info.NCPU)) * 1e9)),
	}
	if spec.Idle {
		r.CPUShares = 2
	}

	for name, most := range map[string]int64{
		"core":     0,
		"nofile":   8192,
		"fsize":    largest,
		"memlock":  64 << 10,
		"msgqueue": 64 << 10,
	} {
		r.Ulimits = append(r.Ulimits, &units.Ulimit{Name: name, Soft: most, Hard: most})
	}

	return r
}

// serveArgs returns sandboxd's arguments. The limit of processes is the container's: a limit per user would
// count all sandboxes, since users of containers are users of the machine.
func (d *Driver) serveArgs(
	id string,
	spec driver.Spec,
	g imageconfig.Guest,
	info *system.Info,
	folders []folder,
) ([]string, error) {
	data, err := json.Marshal(g.Env)
	if err != nil {
		return nil, err
	}

	sources, err := json.Marshal(usage.Sources{
		Counters: usage.InContainer(info.CgroupVersion == "2"),
		Folders:  sized(spec, folders),
	})
	if err != nil {
		return nil, err
	}

	var filter []byte
	if spec.IsVerifier() {
		filter = d.filter
	}

	fill, err := json.Marshal(fills(folders))
	tree := min(spec.HomeMiB, spec.MemoryMiB)
	// these have sizes of their own
	if spec.Image != "" {
		tree = spec.MemoryMiB
	}

	return append([]string{
		"serve", "--control-path", controlSocket, "--id", id, "--lease", spec.Lease.String(),
		"--tree-limit", strconv.Itoa(tree << 20),
		"--make-folders", "--fill", string(fill), "--separate-users", "--env", string(data),
		"--usage", string(sources), "--filter", base64.StdEncoding.EncodeToString(filter),
	}, g.Agent()...), err
}

// encloseArgs returns the arguments to make a sandbox of part of the container, whose agent is a user of
// the image. Its root file system is the image below a layer in memory of the home's size, as on the
// backend local.
func (d *Driver) encloseArgs(id string, spec driver.Spec, g imageconfig.Guest, info *system.Info) ([]string, error) {
	root := g.Overlay()
	root.SizeMiB = spec.HomeMiB
	root.Points = append(root.Points,
		"/proc", "/dev", "/sys", "/run", "/etc", "/verifier", ownMount)

	data, err := json.Marshal(nested.Config{
		ID:        id,
		Lease:     spec.Lease.String(),
		HomeMiB:   spec.HomeMiB,
		TmpMiB:    spec.TmpMiB,
		TreeBytes: maxCopied, // with unchanged files of the image, which are not written again
		Filter:    d.filter,
		Verifier:  g.Verifier,
		Env:       g.Env,
		Counters:  usage.InContainer(info.CgroupVersion == "2"),
		Image: &nested.Image{
			Root:     root,
			Agent:    g.Agent(),
			Names:    g.Names(),
			Changed:  g.Changed,
			Verifier: g.Verifier,
			OwnImage: g.OwnImage,
			Writable: append([]string{wire.AgentHome, wire.Tmp}, g.Writable()...),
		},
	})

	return []string{nested.Command, string(data)}, err
}
