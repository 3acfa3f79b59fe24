package devserver_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"testing"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/rolloutd/rolloutd/cmd/rolloutd-dev/devserver"
)

const (
	namespace = "default"
	queue     = "steps"

	// the data folder of the child process
	childEnv = "DEVSERVER_TEST_CHILD"
)

// TestMain is also the program of a child process: a server with a worker that runs until the test kills it.
func TestMain(m *testing.M) {
	if dir := os.Getenv(childEnv); dir != "" {
		if err := child(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}

		return
	}

	os.Exit(m.Run())
}

func child(dir string) error {
	ctx := context.Background()

	srv, err := devserver.Start(ctx, options(dir))
	if err != nil {
		return err
	}

	c, err := dial(srv)
	if err != nil {
		return err
	}

	if err := newWorker(c).Start(); err != nil {
		return err
	}

	fmt.Println(srv.Address())
	// until the test kills the process
	select {}
}

func options(dir string) devserver.Options {
	return devserver.Options{
		Dir:              dir,
		Namespace:        namespace,
		SearchAttributes: map[string]enumspb.IndexedValueType{"RolloutTask": enumspb.INDEXED_VALUE_TYPE_KEYWORD},
		Log:              slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError + 4})),
	}
}

func dial(srv *devserver.Server) (client.Client, error) {
	return client.Dial(client.Options{HostPort: srv.Address(), Namespace: namespace, Logger: quiet()})
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func newWorker(c client.Client) worker.Worker {
	w := worker.New(c, queue, worker.Options{})
	w.RegisterWorkflow(twoSteps)
	w.RegisterActivity(appendLine)

	return w
}

// twoSteps runs one step, waits for a signal, and runs another.
func twoSteps(ctx workflow.Context, file string) (string, error) {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: 10 * time.Minute})
	if err := workflow.ExecuteActivity(ctx, appendLine, file, "first").Get(ctx, nil); err != nil {
		return "", err
	}

	var word string
	workflow.GetSignalChannel(ctx, "go").Receive(ctx, &word)

	return word, workflow.ExecuteActivity(ctx, appendLine, file, word).Get(ctx, nil)
}

func appendLine(_ context.Context, file, line string) error {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()

	_, err = fmt.Fprintln(f, line)

	return err
}
