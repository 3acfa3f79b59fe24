package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rolloutd/rolloutd/internal/cli"
	"github.com/rolloutd/rolloutd/internal/config"
	"github.com/rolloutd/rolloutd/internal/taskset"
)

func tasksCommand(s std) *cobra.Command {
	cmd := &cobra.Command{Use: "tasks", Short: "List and check the tasks of a set", GroupID: groupRollouts}
	cmd.AddCommand(tasksLsCommand(s), tasksCheckCommand(s), tasksBuildCommand(s))

	return cmd
}

const aboutSets = "A set is a folder of task files or Harbor tasks, a file of JSON lines, one task file, or the name of a set in the\nconfiguration (task_sets)."

func tasksLsCommand(s std) *cobra.Command {
	f := settings{s: s}

	var sel selectFlags

	asJSON := false
	cmd := &cobra.Command{
		Use:   "ls SET",
		Short: "List the tasks of a set, with their digests",
		Long:  aboutSets,
		Args:  cli.Arguments("SET"),
	}
	f.register(cmd)
	sel.register(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON lines")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		set, chosen, _, err := f.openSet(args[0], sel)
		if err != nil {
			return err
		}
		defer set.Close()

		for _, i := range chosen {
			if err := listTask(s.out, set, i, asJSON); err != nil {
				return err
			}
		}

		return nil
	}

	return cmd
}

// listTask writes a line about a task; for a broken one, its error.
func listTask(w io.Writer, set *taskset.Set, i int, asJSON bool) error {
	line := struct {
		Name        string `json:"name"`
		Digest      string `json:"digest,omitempty"`
		Source      string `json:"source"`
		Instruction string `json:"instruction,omitempty"`
		Error       string `json:"error,omitempty"`
	}{Name: set.Name(i), Source: set.Source(i)}

	t, err := set.Task(i)
	if err == nil {
		line.Instruction = t.Instruction
		line.Digest, err = t.Digest()
	}

	if err != nil {
		line.Error = err.Error()
	}

	if asJSON {
		return json.NewEncoder(w).Encode(line)
	}

	first, _, _ := strings.Cut(strings.TrimSpace(line.Instruction), "\n")
	if line.Error != "" {
		first = "broken: " + line.Error
	}

	return cli.ListedTask(w, line.Name, line.Digest, first)
}

// selectFlags choose tasks of a set.
type selectFlags struct {
	tasks, exclude []string
	shuffle, shard string
	limit          int
}

func (f *selectFlags) register(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringSliceVar(&f.tasks, "task", nil, "names or globs of tasks (default: all)")
	fl.StringSliceVar(&f.exclude, "exclude", nil, "names or globs of tasks that are left out")
	fl.StringVar(&f.shuffle, "shuffle", "", "seed of a random order (default: the order of the set)")
	fl.StringVar(&f.shard, "shard", "", "part i/n of the tasks, from 0/n")
	fl.IntVar(&f.limit, "limit", 0, "tasks at most (default: all)")
}

func (f *selectFlags) selection() (taskset.Selection, error) {
	sel := taskset.Selection{Tasks: f.tasks, Exclude: f.exclude, Limit: f.limit}
	if f.shuffle != "" {
		seed, err := strconv.ParseUint(f.shuffle, 10, 64)
		if err != nil {
			return sel, fmt.Errorf("--shuffle: must be a whole number of at least 0, got %q", f.shuffle)
		}

		sel.Shuffle = &seed
	}

	if f.shard != "" {
		if n, err := fmt.Sscanf(f.shard, "%d/%d", &sel.Shard, &sel.Shards); err != nil || n != 2 || sel.Shards < 1 {
			return sel, fmt.Errorf("--shard: must be i/n with 0 ≤ i < n, got %q", f.shard)
		}
	}

	return sel, sel.Validate()
}

// openSet opens the set of a name or a path and selects tasks of it.
func (f *settings) openSet(name string, flags selectFlags) (*taskset.Set, []int, config.Config, error) {
	cfg, err := f.load(nil)
	if err != nil {
		return nil, nil, cfg, err
	}

	sel, err := flags.selection()
	if err != nil {
		return nil, nil, cfg, err
	}

	set, err := taskset.Open(setPath(cfg, name))
	if err != nil {
		return nil, nil, cfg, err
	}

	chosen, err := set.Select(sel)
	if err != nil {
		return nil, nil, cfg, errors.Join(err, set.Close())
	}

	return set, chosen, cfg, nil
}

// setPath is the path of a configured set; any other name is a path.
func setPath(cfg config.Config, name string) string {
	if named, ok := cfg.TaskSets[name]; ok {
		return named.Path
	}

	return name
}

// isSet reports whether a path is a set of tasks rather than one task file.
func isSet(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.IsDir() || strings.HasSuffix(path, ".jsonl") || strings.HasSuffix(path, ".ndjson")
}

// isTaskFile reports whether a path is a task file.
func isTaskFile(path string) bool {
	return strings.HasSuffix(path, ".yaml") || strings.HasSuffix(path, ".yml")
}
