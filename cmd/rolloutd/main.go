// Command rolloutd runs the roles of rolloutd, and submits, shows and aborts rollouts.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/rolloutd/rolloutd/internal/cli"
	"github.com/rolloutd/rolloutd/internal/config"
	"github.com/rolloutd/rolloutd/internal/daemon"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// the second signal ends the process at once
	context.AfterFunc(ctx, stop)
	daemon.NameBuild()
	os.Exit(run(ctx, os.Args[1:], std{os.Stdout, os.Stderr, config.EnvironOf(os.Environ())}))
}

// std is the input and output of the process.
type std struct {
	out, err io.Writer
	env      config.Environ
}

// hintNext says how to get the next page of a list, if there is one. Its cursor is valid with the same filters only.
func (s std) hintNext(cursor string) {
	if cursor != "" {
		fmt.Fprintf(s.err, "more: repeat the command with --cursor %s\n", cursor)
	}
}

// exitError ends the process with this exit code and prints nothing.
type exitError int

func (e exitError) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

func run(ctx context.Context, args []string, s std) int {
	root := command(s)
	root.SetArgs(args)
	root.SetOut(s.out)
	root.SetErr(s.err)
	cmd, err := root.ExecuteContextC(ctx)

	var code exitError
	switch {
	case err == nil:
		return cli.ExitOK
	case errors.As(err, &code):
	case ctx.Err() != nil && errors.Is(err, context.Cause(ctx)):
		code = cli.ExitDetached
	default:
		code = cli.ExitError

		fmt.Fprintln(s.err, "rolloutd:", err)
	}

	// A program that reads JSON gets JSON in every case. Of flags after one that does not parse, Changed says nothing.
	if cmd.Flags().Lookup("json") != nil && slices.Contains(args, "--json") {
		code.writeJSON(s.out, err)
	}

	return int(code)
}

// writeJSON writes why a command ended with the code, where the command has not written it.
func (e exitError) writeJSON(out io.Writer, err error) {
	var why cli.JSONError

	switch {
	case e == cli.ExitTimeout:
		why.Message = errTimeout.Error()
	case e == cli.ExitDetached:
		why.Message = "interrupted"
	case err == nil || errors.As(err, new(exitError)):
		return
	default:
		why = cli.NewJSONError(err)
	}

	// a closed pipe ends the command by its signal
	_ = json.NewEncoder(out).Encode(map[string]any{"error": why})
}

func command(s std) *cobra.Command {
	root := &cobra.Command{
		Use:           "rolloutd",
		Short:         "Durable rollouts of coding agents for reinforcement learning",
		SilenceUsage:  true,
		SilenceErrors: true,
		Version:       daemon.Version,
	}
	root.AddGroup(
		&cobra.Group{ID: groupRoles, Title: "Roles:"}, &cobra.Group{ID: groupRollouts, Title: "Rollouts:"},
		&cobra.Group{ID: groupTraining, Title: "Training:"}, &cobra.Group{ID: groupHosts, Title: "Hosts:"},
	)
	root.AddCommand(roles(s)...)
	root.AddCommand(
		runCommand(s),
		tasksCommand(s),
		lsCommand(s),
		groupsCommand(s),
		showCommand(s),
		tailCommand(s),
		logsCommand(s),
		messagesCommand(s),
		filesCommand(s),
		traceCommand(s),
		exportCommand(s),
		viewCommand(s),
		trajectoryCommand(s),
		abortCommand(s),
		regradeCommand(s),
	)
	root.AddCommand(produceCommand(s), deliverCommand(s), deliveriesCommand(s), upstreamCommand(s))
	root.AddCommand(hostsCommand(s), poolCommand(s), imageCommand(s), agentsCommand(s), doctorCommand(s))
	root.AddCommand(storeCommand(s), keepCommand(s))
	root.AddCommand(versionCommand(s))
	cli.Strict(root)
	completeFlags(root)

	return root
}

const (
	groupRoles    = "roles"
	groupRollouts = "rollouts"
	groupTraining = "training"
	groupHosts    = "hosts"
)

func versionCommand(s std) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cli.Arguments(),
		RunE: func(*cobra.Command, []string) error {
			fmt.Fprintln(s.out, daemon.Version)
			return nil
		},
	}
}
