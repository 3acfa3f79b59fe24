package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/docker/go-units"
	"github.com/spf13/cobra"

	"github.com/rolloutd/rolloutd/internal/cli"
	"github.com/rolloutd/rolloutd/internal/config"
	"github.com/rolloutd/rolloutd/internal/daemon"
	hostimages "github.com/rolloutd/rolloutd/internal/daemon/images"
	"github.com/rolloutd/rolloutd/internal/dockerfile"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/image"
)

func imageCommand(s std) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "image",
		Short:   "Pull, import, build, list, keep and remove the OCI images of this host",
		GroupID: groupHosts,
	}
	cmd.AddCommand(
		imagePullCommand(s),
		imageImportCommand(s),
		imageBuildCommand(s),
		imageLsCommand(s),
		imageKeepCommand(s),
		imagePruneCommand(s),
		imageRmCommand(s),
	)

	return cmd
}

// withImages makes cmd call run with the images of this host.
func withImages(
	s std,
	cmd *cobra.Command,
	run func(ctx context.Context, images *image.Store, args []string) error,
) *cobra.Command {
	f := settings{s: s}
	f.register(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		cfg, err := f.load(nil)
		if err != nil {
			return err
		}

		images, err := hostimages.Open(cfg, f.log())
		if err != nil {
			return err
		}

		return run(cmd.Context(), images, args)
	}

	return cmd
}

func imagePullCommand(s std) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "pull NAME",
		Short:   "Pull an image from a registry",
		Args:    cli.Arguments("NAME"),
		Long:    "Pull reads credentials from the Docker configuration (~/.docker/config.json, $DOCKER_CONFIG). A name that the host has is pulled again.",
		Example: "  rolloutd image pull python:3.12-slim",
	}

	return withImages(s, cmd, func(ctx context.Context, images *image.Store, args []string) error {
		i, err := images.Pull(ctx, args[0])
		if err != nil {
			return err
		}

		return added(s.out, i, args[0])
	})
}

func imageImportCommand(s std) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "import PATH NAME",
		Short:   "Add an image from a file or a folder",
		Args:    cli.Arguments("PATH", "NAME"),
		Long:    "PATH is an archive of docker save, a tar file of an OCI layout, an OCI layout folder, or the folder of a root file system.",
		Example: "  docker save myapp:1 -o myapp.tar && rolloutd image import myapp.tar myapp:1",
	}

	return withImages(s, cmd, func(ctx context.Context, images *image.Store, args []string) error {
		i, err := images.Import(ctx, args[0], args[1])
		if err != nil {
			return err
		}

		return added(s.out, i, args[1])
	})
}

func imageBuildCommand(s std) *cobra.Command {
	var (
		template image.Template
		args     map[string]string
	)

	f, build, e2b := settings{s: s}, buildFlags{timeout: time.Hour}, false
	cmd := &cobra.Command{
		Use:   "build FOLDER NAME",
		Short: "Build an image of a Dockerfile",
		Args:  cli.Arguments("FOLDER", "NAME"),
		Long: "Build uses buildctl or docker where its daemon answers, and else builds by itself, in sandboxes of this host: docs/images.md.\n" +
			"With --e2b it builds nothing: it writes FOLDER/" + image.TemplateFile + ", the definition of a template that sandboxes on the backend\n" +
			"e2b can use, and prints the command that builds it at E2B.",
		Example: "  rolloutd image build . myapp:1\n  rolloutd image build . myapp:1 --network \"*\"\n  rolloutd image build --e2b --from python:3.12 . myapp",
	}
	f.register(cmd)
	build.register(cmd)
	cmd.Flags().StringVarP(&template.Dockerfile, "file", "f", "Dockerfile", "path of the Dockerfile below FOLDER")
	cmd.Flags().StringToStringVar(&args, "build-arg", nil, "values for ARG: NAME=VALUE")
	cmd.Flags().BoolVar(&e2b, "e2b", false, "write the definition of a template of E2B")
	cmd.Flags().StringVar(&template.From, "from", "",
		"with --e2b: a Debian image of a registry, instead of a Dockerfile")
	cmd.RunE = func(cmd *cobra.Command, names []string) error {
		template.Folder, template.Name = names[0], names[1]

		switch {
		case e2b:
			return writeTemplate(s.out, template)
		case template.From != "":
			return fault.New(fault.Invalid, "--from needs --e2b")
		}

		cfg, err := f.load(nil)
		if err != nil {
			return err
		}

		i, err := build.image(cmd.Context(), cfg, f.log(), dockerfile.Job{
			Folder: template.Folder, Dockerfile: template.Dockerfile, Name: template.Name, Args: args,
			Output: s.err, Timeout: build.timeout,
		})
		if err != nil {
			return err
		}

		return added(s.out, i, template.Name)
	}

	return cmd
}

// buildFlags are the flags of commands that build images.
type buildFlags struct {
	hosts     []string
	memoryMiB int
	timeout   time.Duration
}

func (b *buildFlags) register(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringSliceVar(&b.hosts, "network", nil, "hosts that RUN may reach, \"*\" for all public ones (default: sandbox.network.max)")
	fl.IntVar(&b.memoryMiB, "memory-mib", 4096, "memory of a RUN with the files that it writes")

	usage := "time for a build"
	if b.timeout == 0 {
		usage += " (0: that of the task)"
	}

	fl.DurationVar(&b.timeout, "timeout", b.timeout, usage)
}

// image builds with BuildKit or Docker where they answer, else in sandboxes of this host.
func (b *buildFlags) image(
	ctx context.Context, cfg config.Config, log *slog.Logger, j dockerfile.Job,
) (image.Image, error) {
	hosts := b.hosts
	if hosts == nil {
		hosts = cfg.Sandbox.Network.Max
	}

	builder, err := daemon.Builder(cfg, log, hosts)
	if err != nil {
		return image.Image{}, err
	}

	builder.MemoryMiB = b.memoryMiB

	ctx, cancel := context.WithTimeoutCause(
		ctx, j.Timeout, fault.New(fault.Timeout, "the build of %s took longer than %s", j.Folder, j.Timeout),
	)
	defer cancel()

	return image.Build(ctx, builder.Images, image.BuildJob{
		Folder: j.Folder, Dockerfile: j.Dockerfile, Name: j.Name, Args: j.Args, Output: j.Output,
		DockerEnv: dockerEnv(cfg.Sandbox.Docker),
		Own:       func(ctx context.Context) (image.Image, error) { return builder.Build(ctx, j) },
	})
}

// dockerEnv returns the variables with which Docker's client reaches the daemon of the backend docker.
func dockerEnv(d config.Docker) []string {
	var env []string

	if d.Host != "" {
		env = append(env, "DOCKER_HOST="+d.Host)
	}

	if d.CertPath != "" {
		env = append(env, "DOCKER_CERT_PATH="+d.CertPath, "DOCKER_TLS_VERIFY=1")
	}

	return env
}

// writeTemplate writes the definition of a template and says what to do with it.
func writeTemplate(w io.Writer, t image.Template) error {
	path, err := t.Write()
	if err != nil {
		return err
	}

	_, err = fmt.Fprintf(
		w,
		`%s is written. Build it with E2B's command line, with the CPUs and the memory of its machines:
  e2b template create %s --path %q --dockerfile %s --cpu-count 2 --memory-mb 2048
Then name it in a task (sandbox: {backend: e2b, image: %[2]s}), or in sandbox.e2b.template for all tasks without an image.
`,
		path,
		t.Name,
		t.Folder,
		image.TemplateFile,
	)

	return err
}

func added(w io.Writer, i image.Image, name string) error {
	_, err := fmt.Fprintf(w, "%s  %s  %d layers, %s\n", name, i.ID, len(i.Layers), units.BytesSize(float64(i.Bytes)))
	return err
}

func imageLsCommand(s std) *cobra.Command {
	cmd := &cobra.Command{Use: "ls", Short: "List the images of this host, the last used first", Args: cli.Arguments()}

	return withImages(s, cmd, func(_ context.Context, images *image.Store, _ []string) error {
		all, err := images.List()
		if err != nil {
			return err
		}

		total, err := images.Bytes()
		if err != nil {
			return err
		}

		w := tabwriter.NewWriter(s.out, 0, 0, 2, ' ', 0)
		fmt.Fprintln(w, "NAME\tID\tLAYERS\tSIZE\tUSED\tKEPT")

		for _, i := range all {
			for _, name := range append(i.Names, "-")[:max(1, len(i.Names))] {
				fmt.Fprintf(w, "%s\t%.19s\t%d\t%s\t%s\t%s\n",
					name, i.ID, len(i.Layers), units.BytesSize(float64(i.Bytes)), i.UsedAt.Format(time.DateTime),
					map[bool]string{true: "kept", false: "-"}[i.Kept])
			}
		}

		fmt.Fprintf(w, "%d images, %s on disk\n", len(all), units.BytesSize(float64(total)))

		return w.Flush()
	})
}

func imageRmCommand(s std) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rm NAME",
		Short: "Remove the name of an image, and the image with its last name",
		Args:  cli.Arguments("NAME"),
		Long:  "NAME may be an id (sha256:…), which removes all names. An image that a sandbox uses is not removed.",
	}

	return withImages(s, cmd, func(ctx context.Context, images *image.Store, args []string) error {
		return images.Remove(ctx, args[0])
	})
}

func imageKeepCommand(s std) *cobra.Command {
	off := false
	cmd := &cobra.Command{
		Use:   "keep NAME",
		Short: "Keep an image from being removed for its age or size",
		Args:  cli.Arguments("NAME"),
		Long: "Keep is for images that no registry has, such as built and imported ones. The name stays kept when it is pulled or\n" +
			"built again; rolloutd image rm removes it all the same.",
		Example: "  rolloutd image keep myapp:1",
	}
	cmd.Flags().BoolVar(&off, "off", false, "let it be removed again")

	return withImages(s, cmd, func(ctx context.Context, images *image.Store, args []string) error {
		return images.Pin(ctx, args[0], !off)
	})
}

func imagePruneCommand(s std) *cobra.Command {
	remove := false
	cmd := &cobra.Command{
		Use:   "prune",
		Short: "Remove the images beyond sandbox.images.max_age and max_gib; without --delete say which",
		Args:  cli.Arguments(),
		Long: "A worker does this by itself, at its start and every retention.every. Prune keeps images that a sandbox uses and\n" +
			"those that rolloutd image keep names.",
		Example: "  ROLLOUTD_IMAGES_MAX_AGE=336h rolloutd image prune",
	}
	cmd.Flags().BoolVar(&remove, "delete", false, "remove them")

	return withImages(s, cmd, func(_ context.Context, images *image.Store, _ []string) error {
		now := time.Now()

		surplus, err := images.Surplus(now)
		if err != nil {
			return err
		}

		for _, i := range surplus {
			fmt.Fprintf(
				s.out, "%.19s  %s  last used %s  %s\n",
				i.ID, units.BytesSize(float64(i.Bytes)), i.UsedAt.Format(time.DateTime), strings.Join(i.Names, " "),
			)
		}

		if !remove {
			fmt.Fprintf(s.out, "%d images to remove; nothing is removed without --delete\n", len(surplus))

			return nil
		}

		removed, err := images.Collect(now)
		fmt.Fprintf(s.out, "%d images removed\n", len(removed))

		return err
	})
}
