package image

import (
	"cmp"
	"context"
	"errors"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// BuildJob describes a build.
type BuildJob struct {
	// the build context
	Folder string

	// path below Folder; "": Dockerfile
	Dockerfile string

	// name of the image
	Name string

	// values for ARG
	Args map[string]string

	// takes the output of the builder
	Output io.Writer

	// variables of Docker's client, which name its daemon; nil: those of this process
	DockerEnv []string

	// Own builds where neither BuildKit nor Docker answers; nil: the error says what is missing.
	Own func(ctx context.Context) (Image, error)
}

// Build builds an image with the first of BuildKit, Docker and Own that there is, and adds it to the images of this
// host.
func Build(ctx context.Context, images *Store, j BuildJob) (Image, error) {
	if _, err := ParseName(j.Name); err != nil {
		return Image{}, err
	}

	j.Dockerfile = cmp.Or(j.Dockerfile, "Dockerfile")
	if _, err := os.Stat(filepath.Join(j.Folder, j.Dockerfile)); err != nil {
		return Image{}, fault.Wrap(fault.NotFound, err, "build")
	}

	temp, err := os.MkdirTemp("", "rolloutd-build-")
	if err != nil {
		return Image{}, fault.Wrap(fault.Exhausted, err, "build")
	}
	defer os.RemoveAll(temp)

	archive := filepath.Join(temp, "image.tar")

	err = j.run(ctx, archive)
	if errors.Is(err, errNoBuilder) && j.Own != nil {
		return j.Own(ctx)
	}

	if err != nil {
		return Image{}, err
	}

	return images.Import(ctx, archive, j.Name)
}

// errNoBuilder means that no builder's daemon answers.
var errNoBuilder = errors.New("this machine has no builder that answers")

// run builds into an archive with the first builder that answers.
func (j BuildJob) run(ctx context.Context, archive string) error {
	var missing []string

	for _, b := range builders(j, archive) {
		if err := j.exec(ctx, io.Discard, b.answers); err != nil {
			missing = append(missing, b.name+" ("+strings.TrimSpace(err.Error())+")")
			continue
		}

		for _, command := range b.commands {
			if err := j.exec(ctx, j.Output, command); err != nil {
				return fault.Wrap(fault.Unavailable, err, "build with %s%s", b.name, j.lacksBuildKit(ctx, b))
			}
		}

		return nil
	}

	return fault.Wrap(fault.Unavailable, errNoBuilder,
		"build: %s; start one, or build elsewhere and use `rolloutd image import`",
		strings.Join(missing, ", "))
}

// builder is a program that builds images.
type builder struct {
	name string

	// a command that succeeds if the builder's daemon answers
	answers  []string
	commands [][]string

	// a command that succeeds if the builder is BuildKit
	buildKit []string
}

// lacksBuildKit names what a builder without BuildKit cannot read in a Dockerfile; "": it is BuildKit.
func (j BuildJob) lacksBuildKit(ctx context.Context, b builder) string {
	if b.buildKit == nil || j.exec(ctx, io.Discard, b.buildKit) == nil {
		return ""
	}

	return ", whose client lacks the plugin buildx: without it Docker reads no << and no --mount of a RUN, and no --link or --chmod of a COPY"
}

// DockerLacks reports whether a daemon of Docker answers, and has no image of that name. env has the variables of Docker's
// client, which name the daemon; nil: those of this process.
func DockerLacks(ctx context.Context, name string, env []string) bool {
	var found strings.Builder

	err := BuildJob{DockerEnv: env}.exec(ctx, &found, []string{"docker", "images", "--quiet", name})

	return err == nil && found.Len() == 0
}

func builders(j BuildJob, archive string) []builder {
	var buildkitArgs, dockerArgs []string
	for _, name := range slices.Sorted(maps.Keys(j.Args)) {
		buildkitArgs = append(buildkitArgs, "--opt", "build-arg:"+name+"="+j.Args[name])
		dockerArgs = append(dockerArgs, "--build-arg", name+"="+j.Args[name])
	}

	return []builder{
		{name: "buildctl", answers: []string{"buildctl", "debug", "workers"}, commands: [][]string{slices.Concat([]string{
			"buildctl", "build", "--frontend", "dockerfile.v0", "--local", "context=" + j.Folder, "--local",
			"dockerfile=" + j.Folder, "--opt", "filename=" + j.Dockerfile, "--output",
			"type=oci,dest=" + archive,
		}, buildkitArgs)}},
		{name: "docker", answers: []string{"docker", "version"}, buildKit: []string{"docker", "buildx", "version"}, commands: [][]string{
			slices.Concat(
				[]string{"docker", "build", "--tag", j.Name, "--file", filepath.Join(j.Folder, j.Dockerfile)},
				dockerArgs, []string{j.Folder},
			),
			{"docker", "save", "--output", archive, j.Name},
		}},
	}
}

func (j BuildJob) exec(ctx context.Context, output io.Writer, command []string) error {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Stdout, cmd.Stderr = output, output

	cmd.Env = append(os.Environ(), j.DockerEnv...)

	err := cmd.Run()
	if errors.Is(err, exec.ErrNotFound) {
		return errors.New("not in PATH")
	}

	return err
}
