package taskset

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/docker/go-units"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

// Times of a compose file's health check where it names none, in seconds.
const (
	composeInterval = 30
	composeTimeout  = 30
)

// service turns a service of the file into one of a sandbox.
func (c *composeReader) service(name string, s composeService, settings harborSettings) rollout.Service {
	at := "services." + name + "."
	c.refuseRest(at, s.Rest, serviceIgnored...)
	c.checkPlatform(at, s)
	c.checkNames(at, name, s)

	service := rollout.Service{
		Name: name, Image: s.Image, Entrypoint: s.Entrypoint, Command: s.Command, Env: s.Environment,
		User: s.User, WorkingDir: s.WorkingDir, Volumes: c.volumes(at, s.Volumes),
		Healthcheck: c.health(at+"healthcheck.", s.Healthcheck),
	}

	if build := c.buildOf(at, s.Build, settings); build != nil {
		service.Image = build.Image
		c.task.ServiceBuilds = append(c.task.ServiceBuilds, build)
	}

	service.CPU, service.MemoryMiB = c.size(at, s)

	for _, on := range sortedKeys(s.DependsOn) {
		if on == rollout.MainService {
			c.refuseField(at+"depends_on."+on, "the agent's sandbox is always there before the services")
			continue
		}

		c.checkCondition(at, on, s.DependsOn[on])
		service.DependsOn = append(service.DependsOn, on)
	}

	return service
}

// buildOf returns the image that a build of the file gives; nil: there is none.
func (c *composeReader) buildOf(at string, b *composeBuild, settings harborSettings) *Build {
	if b == nil {
		return nil
	}

	c.refuseRest(at+"build.", b.Rest)

	folder, ok := b.folder()
	if !ok {
		c.refuseField(at+"build.context", "must be a folder of the task, got %q", b.Context)
		return nil
	}

	file, ok := b.file()
	if !ok {
		c.refuseField(at+"build.dockerfile", "must be a file of the context, got %q", b.Dockerfile)
		return nil
	}

	build := c.build(folder, file, settings.Environment.BuildSec)
	if build == nil {
		c.refuseField(at+"build", "%s/%s is missing", folder, file)
		return nil
	}

	build.setArgs(b.Args)

	return build
}

// folder is the build context, below the folder of the task; "." is that itself, of which Harbor's older tasks are built.
func (b *composeBuild) folder() (string, bool) {
	return below(harborTaskFolder, fromFolder(harborContext, b.Context))
}

// file is the path of the Dockerfile below the context.
func (b *composeBuild) file() (string, bool) {
	context := fromFolder(harborContext, b.Context)
	return below(context, fromFolder(context, cmp.Or(b.Dockerfile, dockerfileName)))
}

// fromFolder is the path to which a name leads from a folder.
func fromFolder(folder, name string) string {
	if path.IsAbs(name) {
		return path.Clean(name)
	}

	return path.Join(folder, name)
}

// below is the path of a file or folder from a folder that contains it.
func below(folder, name string) (string, bool) {
	if name == folder {
		return ".", true
	}

	return strings.CutPrefix(name, folder+"/")
}

// volumes returns the named volumes. Those without a name belong to one sandbox, as all of its files do.
func (c *composeReader) volumes(at string, given []composeVolume) []rollout.Volume {
	var volumes []rollout.Volume

	for i, v := range given {
		field := fmt.Sprintf("%svolumes[%d]", at, i)
		c.refuseRest(field+".", v.Rest)

		switch _, declared := c.file.Volumes[v.Source]; {
		case v.Type == "bind" && strings.HasPrefix(v.Source, harborMount):
		case v.Type != "volume":
			c.refuseField(field, "a %s is not supported: copy the files in a Dockerfile",
				cmp.Or(v.Type, "volume without a type"))
		case v.Source == "":
		case !declared:
			c.refuseField(field, "there is no volume %q in volumes", v.Source)
		default:
			volumes = append(volumes, rollout.Volume{Name: v.Source, Path: path.Clean(v.Target), ReadOnly: v.ReadOnly})
		}
	}

	return volumes
}

func (c *composeReader) health(at string, h *composeHealth) *rollout.Healthcheck {
	if h == nil || h.Disable || len(h.Test) > 0 && h.Test[0] == "NONE" {
		return nil
	}

	c.refuseRest(at, h.Rest)

	check := &rollout.Healthcheck{
		Interval: cmp.Or(c.seconds(at+"interval", h.Interval), composeInterval),
		Timeout:  cmp.Or(c.seconds(at+"timeout", h.Timeout), composeTimeout),
		Retries:  h.Retries, StartPeriod: c.seconds(at+"start_period", h.StartPeriod),
	}

	switch {
	case len(h.Test) >= 2 && h.Test[0] == "CMD":
		check.Test = slices.Clone(h.Test[1:])
	case len(h.Test) == 2 && h.Test[0] == "CMD-SHELL":
		check.Test = []string{"/bin/sh", "-c", h.Test[1]}
	default:
		c.refuseField(at+"test", "must be a text, or a list that begins with CMD or CMD-SHELL")
	}

	return check
}

func (c *composeReader) seconds(field, text string) float64 {
	if text == "" {
		return 0
	}

	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		c.refuseField(field, "must be a time such as 10s or 1m30s, got %q", text)
	}

	return d.Seconds()
}

// size is the CPU and the memory of a service; 0: not given.
func (c *composeReader) size(at string, s composeService) (cpu float64, memoryMiB int) {
	cpus, cores := at+"cpus", s.CPUs
	field, memory := at+"mem_limit", s.MemLimit

	if d := s.Deploy; d != nil {
		c.refuseRest(at+"deploy.", d.Rest)
		c.refuseRest(at+"deploy.resources.", d.Resources.Rest)
		c.refuseRest(at+"deploy.resources.limits.", d.Resources.Limits.Rest)

		if cores == "" {
			cpus, cores = at+"deploy.resources.limits.cpus", d.Resources.Limits.CPUs
		}

		if memory == "" {
			field, memory = at+"deploy.resources.limits.memory", d.Resources.Limits.Memory
		}
	}

	if cores != "" {
		var err error
		if cpu, err = strconv.ParseFloat(cores, 64); err != nil || !(cpu >= 0) {
			c.refuseField(cpus, "must be a number of cores such as 0.5, got %q", cores)
		}
	}

	if memory == "" {
		return cpu, 0
	}

	bytes, err := units.RAMInBytes(memory)
	if err != nil || bytes < 1<<20 {
		c.refuseField(field, "must be a size such as 512m or 2g, got %q", memory)
		return cpu, 0
	}

	return cpu, int(bytes >> 20)
}
