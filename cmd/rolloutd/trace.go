package main

import (
	"io"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/rolloutd/rolloutd/internal/fault"
)

func traceCommand(s std) *cobra.Command {
	var format, path string

	cmd := &cobra.Command{
		Use:     "trace ID",
		Short:   "Write the trace of a rollout that is done",
		Args:    rolloutID,
		GroupID: groupRollouts,
		Long:    "Trace writes all model calls of a rollout that is done: as JSON lines with every field, or as arrays for numpy.",
	}
	cmd.Flags().StringVar(&format, "format", "jsonl", "jsonl or npz")
	cmd.Flags().StringVarP(&path, "output", "o", "", "file to write (default: standard output)")
	connect := serverFlag(cmd, s)
	resolve := takesID(cmd, connect)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c := connect()

		if format == "npz" && path == "" && terminal(s.out) {
			return fault.New(fault.Invalid, "--output: must be set for npz, which is binary; or redirect the output")
		}

		id, err := resolve(cmd.Context(), args[0])
		if err != nil {
			return hint(err, c)
		}

		fetch := func(w io.Writer) error { return c.Trace(cmd.Context(), id, format, w) }

		return hint(needsRollout(cmd.Context(), c, writeTo(s.out, path, fetch), id), c)
	}

	return cmd
}

// terminal reports whether w is a terminal.
func terminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}

	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)

	return err == nil
}

// writeTo writes to the file, or to out where none is named.
func writeTo(out io.Writer, path string, write func(io.Writer) error) error {
	if path == "" {
		return write(out)
	}

	return writeAtomically(path, write)
}

// writeAtomically writes to a temporary file and renames it, so that an error leaves no partial file.
func writeAtomically(path string, write func(io.Writer) error) error {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return fault.New(fault.Invalid, "--output: must be a file, got the folder %s", path)
	}

	tmp, err := os.Create(path + ".part")
	if err != nil {
		return fault.Wrap(fault.Invalid, err, "--output")
	}
	// fails after the rename
	defer os.Remove(tmp.Name())

	err = write(tmp)
	if closed := tmp.Close(); err == nil {
		err = closed
	}

	if err != nil {
		return err
	}

	return os.Rename(tmp.Name(), path)
}
