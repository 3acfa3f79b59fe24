package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rolloutd/rolloutd/internal/cli"
	"github.com/rolloutd/rolloutd/internal/cli/client"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// logNames are the logs of a rollout, as REST names them.
var logNames = []string{"agent", "verifier", "proxy", "network"}

func logsCommand(s std) *cobra.Command {
	var (
		name   string
		follow bool
	)

	cmd := &cobra.Command{
		Use:     "logs ID",
		Short:   "Print a log of a rollout that is done",
		Args:    rolloutID,
		GroupID: groupRollouts,
		Long:    "Logs prints a log of a rollout that is done. rolloutd tail shows what happens in one that runs.",
	}
	cmd.Flags().StringVar(&name, "log", "agent", "agent (its output), verifier, proxy (the gateway's), or network (connections)")
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "tail a running rollout to its end first, on standard error")
	connect := serverFlag(cmd, s)
	resolve := takesID(cmd, connect)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !slices.Contains(logNames, name) {
			return fault.New(fault.Invalid, "--log: must be %s, got %q", strings.Join(logNames, ", "), name)
		}

		c := connect()

		id, err := resolve(cmd.Context(), args[0])
		if err == nil && follow {
			err = tail(cmd.Context(), c, id, s.err)
		}

		if err == nil {
			err = needsRollout(cmd.Context(), c, c.Log(cmd.Context(), id, name, s.out), id)
		}

		return hint(err, c)
	}

	return cmd
}

func messagesCommand(s std) *cobra.Command {
	follow := false
	cmd := &cobra.Command{
		Use:     "messages ID",
		Short:   "Print the messages of the agent so far, as JSON lines",
		Args:    rolloutID,
		GroupID: groupRollouts,
		Long: "Messages prints the agent's latest transcript: a line of JSON for each message, with info and parts. rolloutd tail\n" +
			"shows them as they come.",
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "tail a running rollout to its end first, on standard error")
	connect := serverFlag(cmd, s)
	resolve := takesID(cmd, connect)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c := connect()

		id, err := resolve(cmd.Context(), args[0])
		if err == nil && follow {
			err = tail(cmd.Context(), c, id, s.err)
		}

		if err == nil {
			err = needsRollout(cmd.Context(), c, printMessages(cmd.Context(), c, id, s.out), id)
		}

		return hint(err, c)
	}

	return cmd
}

func printMessages(ctx context.Context, c *client.Client, id string, out io.Writer) error {
	t, err := c.Messages(ctx, id)
	if err != nil {
		return err
	}

	enc := json.NewEncoder(out)
	for _, message := range t.Messages {
		if err := enc.Encode(message); err != nil {
			return err
		}
	}

	return nil
}

func filesCommand(s std) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "files",
		Short:   "List, print and copy the files that a rollout left",
		GroupID: groupRollouts,
		Long:    "The files are those of the result: what the agent left in its workdir, within the bounds of results. FILE may be relative\nto the workdir, and cp leaves the workdir's path out.",
	}

	asJSON := false
	ls := filesAction(s, "ls ID", "List the files", rolloutID, func(files map[string]string, _ []string) error {
		names := slices.Sorted(maps.Keys(files))

		if asJSON {
			sizes := map[string]int{}
			for _, name := range names {
				sizes[name] = len(files[name])
			}

			return json.NewEncoder(s.out).Encode(sizes)
		}

		cli.Files(s.out, names, files)

		return nil
	})
	ls.Flags().BoolVar(&asJSON, "json", false, "print sizes in bytes by name, as JSON")

	cat := filesAction(
		s,
		"cat ID FILE",
		"Print a file",
		cli.Arguments("ID", "FILE"),
		func(files map[string]string, args []string) error {
			text, err := fileOf(files, args[1])
			if err != nil {
				return err
			}

			_, err = io.WriteString(s.out, text)

			return err
		},
	)

	cp := filesAction(
		s,
		"cp ID FOLDER",
		"Copy the files into a folder of this machine",
		cli.Arguments("ID", "FOLDER"),
		func(files map[string]string, args []string) error { return copyFiles(files, args[1], s.err) },
	)
	cmd.AddCommand(ls, cat, cp)

	return cmd
}

// filesAction is a command on the files of a rollout that is done.
func filesAction(
	s std,
	use, short string,
	check cobra.PositionalArgs,
	do func(files map[string]string, args []string) error,
) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short, Args: check}
	connect := serverFlag(cmd, s)

	resolve := takesID(cmd, connect)
	if strings.HasPrefix(use, "cat ") {
		cmd.ValidArgsFunction = completeFile(connect)
	}

	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c := connect()

		id, err := resolve(cmd.Context(), args[0])
		if err != nil {
			return hint(err, c)
		}

		r, err := c.Stored(cmd.Context(), id)
		if err != nil {
			return hint(needsRollout(cmd.Context(), c, err, id), c)
		}

		return do(r.Files, args)
	}

	return cmd
}

func fileOf(files map[string]string, name string) (string, error) {
	text, ok := files[name]
	if !ok {
		text, ok = files[path.Join(rollout.Workdir, name)]
	}

	if !ok {
		return "", fault.New(fault.NotFound, "no file %q: rolloutd files ls lists them", name)
	}

	return text, nil
}

// copyFiles writes files below a folder. Names come from the agent: none may leave the folder.
func copyFiles(files map[string]string, folder string, progress io.Writer) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fault.Wrap(fault.Invalid, err, "FOLDER")
	}

	root, err := os.OpenRoot(folder)
	if err != nil {
		return fault.Wrap(fault.Invalid, err, "FOLDER")
	}
	defer root.Close()

	for _, name := range slices.Sorted(maps.Keys(files)) {
		// those outside of the workdir keep their path
		below := strings.TrimPrefix(path.Clean("/"+name), rollout.Workdir+"/")
		below = strings.TrimPrefix(below, "/")

		if dir := path.Dir(below); dir != "." {
			if err := root.MkdirAll(dir, 0o755); err != nil {
				return fmt.Errorf("copy %q: %w", name, err)
			}
		}

		if err := root.WriteFile(below, []byte(files[name]), 0o644); err != nil {
			return fmt.Errorf("copy %q: %w", name, err)
		}
	}

	fmt.Fprintf(progress, "%d files\n", len(files))

	return nil
}
