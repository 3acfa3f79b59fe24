package main

import (
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/rolloutd/rolloutd/internal/fault"
)

func traceCommand(s std) *cobra.Command {
	var format, path string
	cmd := &cobra.Command{
		Use: "trace ID", Short: "Write every model call of a rollout that is done", Args: rolloutID, GroupID: groupRollouts,
		Long: "Trace writes every model call of a rollout that is done: as JSON lines, which have all of each call, or as arrays for numpy.",
	}
	cmd.Flags().StringVar(&format, "format", "jsonl", "jsonl or npz")
	cmd.Flags().StringVarP(&path, "output", "o", "", "file to write (default: standard output)")
	client := serverFlag(cmd, s)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c := client()
		fetch := func(w io.Writer) error { return c.Trace(cmd.Context(), args[0], format, w) }
		if path == "" {
			return hint(fetch(s.out), c)
		}
		return hint(writeWhole(path, fetch), c)
	}
	return cmd
}

// writeWhole puts what write writes in a file's place once it is whole: half a trace looks like a short one.
func writeWhole(path string, write func(io.Writer) error) error {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return fault.New(fault.Invalid, "output: %s is a folder: want a file", path)
	}
	tmp, err := os.Create(path + ".part")
	if err != nil {
		return fault.Wrap(fault.Invalid, err, "output")
	}
	defer os.Remove(tmp.Name()) // gone already when all went well
	err = write(tmp)
	if closed := tmp.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return err
	}
	return os.Rename(tmp.Name(), path)
}
