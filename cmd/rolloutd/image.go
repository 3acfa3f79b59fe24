package main

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/docker/go-units"
	"github.com/spf13/cobra"

	"github.com/rolloutd/rolloutd/internal/cli"
	hostimages "github.com/rolloutd/rolloutd/internal/daemon/images"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/image"
)

func imageCommand(s std) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "image",
		Short:   "Pull, import, build, list and remove the OCI images of this host",
		GroupID: groupHosts,
	}
	cmd.AddCommand(
		imagePullCommand(s),
		imageImportCommand(s),
		imageBuildCommand(s),
		imageLsCommand(s),
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
	var template image.Template

	e2b := false
	cmd := &cobra.Command{
		Use:   "build FOLDER NAME",
		Short: "Build an image of a Dockerfile, with BuildKit or Docker",
		Args:  cli.Arguments("FOLDER", "NAME"),
		Long: "Build needs buildctl with a BuildKit daemon, or docker with a Docker daemon. Without either, build the image elsewhere and\n" +
			"import it: rolloutd image import. With --e2b it builds nothing: it writes FOLDER/" + image.TemplateFile + ", the definition of a template\n" +
			"that sandboxes on the backend e2b can use, and prints the command that builds it at E2B.",
		Example: "  rolloutd image build . myapp:1\n  rolloutd image build --e2b --from python:3.12 . myapp",
	}
	cmd.Flags().StringVarP(&template.Dockerfile, "file", "f", "Dockerfile", "path of the Dockerfile below FOLDER")
	cmd.Flags().BoolVar(&e2b, "e2b", false, "write the definition of a template of E2B")
	cmd.Flags().
		StringVar(&template.From, "from", "", "with --e2b: a Debian image of a registry, instead of a Dockerfile")
	withImages(s, cmd, func(ctx context.Context, images *image.Store, args []string) error {
		i, err := image.Build(ctx, images, image.BuildJob{
			Folder:     args[0],
			Dockerfile: template.Dockerfile,
			Name:       args[1],
			Output:     s.err,
		})
		if err != nil {
			return err
		}

		return added(s.out, i, args[1])
	})
	buildHere := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case e2b:
			template.Folder, template.Name = args[0], args[1]
			return writeTemplate(s.out, template)
		case template.From != "":
			return fault.New(fault.Invalid, "--from needs --e2b")
		}

		return buildHere(cmd, args)
	}

	return cmd
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
		fmt.Fprintln(w, "NAME\tID\tLAYERS\tSIZE\tUSED")

		for _, i := range all {
			for _, name := range append(i.Names, "-")[:max(1, len(i.Names))] {
				fmt.Fprintf(
					w,
					"%s\t%.19s\t%d\t%s\t%s\n",
					name,
					i.ID,
					len(i.Layers),
					units.BytesSize(float64(i.Bytes)),
					i.UsedAt.Format(time.DateTime),
				)
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
