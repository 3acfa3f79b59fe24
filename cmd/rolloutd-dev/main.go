// Command rolloutd-dev runs all roles of rolloutd, an embedded Temporal server and its UI in one process.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/rolloutd/rolloutd/internal/cli"
	"github.com/rolloutd/rolloutd/internal/config"
	"github.com/rolloutd/rolloutd/internal/daemon"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, func() {
		fmt.Fprintln(os.Stderr, "\nstopping … (press Ctrl-C again to force)")
		// the second signal ends the process at once
		stop()
	})

	daemon.NameBuild()

	root := command(std{os.Stdout, os.Stderr, config.EnvironOf(os.Environ())})
	if err := root.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "rolloutd-dev:", err)
		os.Exit(1)
	}
}

// std is the input and output of the process.
type std struct {
	out, err io.Writer
	env      config.Environ
}

func command(s std) *cobra.Command {
	f := flags{s: s}
	root := &cobra.Command{
		Use:           "rolloutd-dev [--demo [TASK.yaml]]",
		Short:         "rolloutd in one process, with an embedded Temporal server",
		Args:          demoTask,
		SilenceUsage:  true,
		SilenceErrors: true,
		Version:       daemon.Version,
		RunE:          func(cmd *cobra.Command, args []string) error { return everything(cmd.Context(), &f, args) },
	}
	f.registerCommon(root)
	f.registerDaemon(root)
	root.AddCommand(temporalCommand(s))
	cli.Strict(root)

	return root
}

// demoTask allows one argument after --demo, a task file. Without --demo an argument is a misspelled command.
func demoTask(cmd *cobra.Command, args []string) error {
	if demo, err := cmd.Flags().GetBool("demo"); err != nil {
		return err
	} else if demo && len(args) > 0 {
		return cli.Arguments("TASK.yaml")(cmd, args)
	}

	return cli.Subcommands(cmd, args)
}

func temporalCommand(s std) *cobra.Command {
	f := flags{s: s}
	cmd := &cobra.Command{
		Use:   "temporal",
		Short: "Run the embedded Temporal server alone, for rolloutd serve | worker | gateway",
		Args:  cli.Arguments(),
		RunE:  func(cmd *cobra.Command, _ []string) error { return temporalAlone(cmd.Context(), &f) },
	}
	f.registerCommon(cmd)
	cmd.Flags().StringVar(&f.codec, "codec-endpoint", "http://127.0.0.1:8000/codec",
		"URL of the codec endpoint that decrypts payloads for the UI: /codec of rolloutd serve, whose serve.codec_origins must have the UI's address unless that is on port 8233")

	return cmd
}
