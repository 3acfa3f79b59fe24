package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/rolloutd/rolloutd/internal/cli"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// errTimeout is the cause when --timeout ends the waiting.
var errTimeout = errors.New("--timeout ran out")

// runFlags are what run adds to its task.
type runFlags struct {
	endpoint, baseURL, keyEnv, model, id string
	json                                 bool
	timeout                              time.Duration
}

func runCommand(s std) *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:     "run TASK.yaml",
		Short:   "Run a rollout of a task and show it as it goes",
		Long:    "Run submits the task to a server and follows the rollout to its result. The rollout is the server's: Ctrl-C\nleaves it running.\n\n" + cli.ExitCodes,
		Example: "  rolloutd run examples/binary_search.yaml --endpoint scripted\n  rolloutd run task.yaml --base-url http://gpu:8000/v1 --model Qwen/Qwen3.5-4B",
		Args:    cli.Arguments("TASK.yaml"),
		GroupID: groupRollouts,
	}
	f.register(cmd)
	client := serverFlag(cmd, s)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		task, err := cli.OpenTask(args[0])
		if err != nil {
			return err
		}
		arguments, err := f.over(task.Arguments(), s)
		if err != nil {
			return err
		}
		ctx, cancel := f.patience(cmd.Context())
		defer cancel()
		c := client()
		r, raw, err := cli.Run(ctx, c, arguments, s.err)
		return f.finish(s.out, r, raw, hint(err, c))
	}
	return cmd
}

func (f *runFlags) register(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVar(&f.endpoint, "endpoint", "", "model endpoint by name: vllm, openai, hf_router, scripted")
	fl.StringVar(&f.baseURL, "base-url", "", "OpenAI-compatible base URL of the model")
	fl.StringVar(&f.keyEnv, "api-key-env", "", "variable of this environment that holds the model's API key")
	fl.StringVar(&f.model, "model", "", "name of the model")
	fl.StringVar(&f.id, "rollout-id", "", "id of the rollout; a used one shows that rollout instead of starting another")
	fl.BoolVar(&f.json, "json", false, "print the whole result as JSON on stdout")
	fl.DurationVar(&f.timeout, "timeout", 0, "stop waiting after this long (the rollout goes on)")
}

// over lays the flags over the task's arguments.
func (f *runFlags) over(args map[string]any, s std) (map[string]any, error) {
	for name, v := range map[string]string{"endpoint": f.endpoint, "base_url": f.baseURL, "model": f.model, "rollout_id": f.id} {
		if v != "" {
			args[name] = v
		}
	}
	if f.keyEnv != "" {
		key := s.env[f.keyEnv]
		if key == "" {
			return nil, fmt.Errorf("--api-key-env: %s is not set", f.keyEnv)
		}
		args["api_key"] = key
	}
	return args, nil
}

// patience ends when the user detaches or --timeout runs out.
func (f *runFlags) patience(ctx context.Context) (context.Context, context.CancelFunc) {
	detached, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { cancel(cli.ErrDetached) })
	if f.timeout <= 0 {
		return detached, func() { stop(); cancel(nil) }
	}
	timed, over := context.WithTimeoutCause(detached, f.timeout, errTimeout)
	return timed, func() { over(); stop(); cancel(nil) }
}

// finish prints the result and picks the exit code.
func (f *runFlags) finish(out io.Writer, r rollout.Result, raw []byte, err error) error {
	switch {
	case errors.Is(err, cli.ErrDetached):
		return exitError(cli.ExitDetached)
	case errors.Is(err, errTimeout):
		return exitError(cli.ExitTimeout)
	case err != nil:
		return err
	}
	if f.json {
		fmt.Fprintf(out, "%s\n", raw)
	} else {
		fmt.Fprintln(out)
		cli.Table(out, r)
	}
	if code := cli.ExitCode(r.Outcome); code != cli.ExitOK {
		return exitError(code)
	}
	return nil
}
