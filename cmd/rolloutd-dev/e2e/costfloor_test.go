package e2e

import (
	"context"
	"log/slog"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

const (
	floorQueue      = "floor"
	floorApartQueue = "floor-apart"
	// floorRuns is the number of workflows per measurement. The kernel counts the CPU time of another
	// process in ticks of 10 ms, so one workflow is not enough.
	floorRuns = 10
	// floorSteps is the number of activities or signals in the workflows that measure the cost of a single one.
	floorSteps = 12
)

// floorShapes returns the measured workflows. "react" and "opencode" have the activities and workflow tasks
// of a rollout in rolloutd-dev, where only the first activity, CreateSandbox, is in another task queue than
// the workflow. "react-apart" is a rollout whose worker is in another process than Temporal: all its
// activities are in another task queue than the workflow.
func floorShapes() map[string]floorShape {
	return map[string]floorShape{
		"empty":       {},
		"apart":       {Activities: floorSteps, Apart: floorSteps},
		"same":        {Activities: floorSteps},
		"signals":     {Signals: floorSteps},
		"react":       {Activities: 5, Apart: 1},
		"react-apart": {Activities: 5, Apart: 5},
		"opencode":    {Activities: 7, Apart: 1, Signals: 1},
	}
}

// BenchmarkTemporalFloor runs workflows that do nothing on the embedded Temporal server. The worker is the
// unmodified worker of Temporal's SDK and runs in the process of the benchmark. The benchmark reports the
// CPU milliseconds of both processes for:
//
//   - a workflow with the activities and workflow tasks of a ReACT or an OpenCode rollout
//   - an empty workflow, which has one workflow task
//   - one activity with the workflow task after it, in the workflow's task queue and in another
//   - one signal with its workflow task
//
// Run it with:
//
//	go test ./e2e -run '^$' -bench 'ReactRollout|TemporalFloor' -benchtime 20x
func BenchmarkTemporalFloor(b *testing.B) {
	f := startFloor(b)
	used := map[string]float64{}

	for _, s := range floorShapes() {
		// the first run includes one-time costs
		f.run(b, s)
	}

	n := 0.0

	for b.Loop() {
		for name, s := range floorShapes() {
			used[name] += f.cpuOf(b, s)
		}

		n++
	}

	ms := func(name string) float64 { return 1000 * used[name] / n }

	b.ReportMetric(0, "ns/op")

	for _, name := range []string{"empty", "react", "react-apart", "opencode"} {
		b.ReportMetric(ms(name), name+"-ms")
	}

	for name, unit := range map[string]string{"same": "step-ms", "apart": "step-apart-ms", "signals": "signal-ms"} {
		b.ReportMetric((ms(name)-ms("empty"))/floorSteps, unit)
	}
}

// floorShape describes a workflow that runs activities one after another and then waits for signals. The
// first Apart activities are in another task queue.
type floorShape struct{ Activities, Apart, Signals int }

// floor is an embedded Temporal server with workers for floorFlow.
type floor struct {
	server *process
	client client.Client
}

func startFloor(b *testing.B) *floor {
	b.Helper()
	address := freePorts(b, 1)[0]
	f := &floor{
		server: startProcess(
			b,
			nil,
			"rolloutd-dev",
			"temporal",
			"--data",
			b.TempDir(),
			"--temporal-port",
			portOf(b, address),
			"--no-ui",
		),
	}
	require.Eventually(b, func() bool {
		var err error

		f.client, err = client.Dial(client.Options{HostPort: address, Logger: slog.New(slog.DiscardHandler)})

		return err == nil
	}, time.Minute, 50*time.Millisecond)
	b.Cleanup(f.client.Close)
	own := worker.New(f.client, floorQueue, worker.Options{})
	own.RegisterWorkflow(floorFlow)
	own.RegisterActivity(floorActivity)

	apart := worker.New(f.client, floorApartQueue, worker.Options{DisableWorkflowWorker: true})
	apart.RegisterActivity(floorActivity)

	for _, w := range []worker.Worker{own, apart} {
		require.NoError(b, w.Start())
		b.Cleanup(w.Stop)
	}

	return f
}

// cpuOf returns the CPU seconds per workflow of the shape.
func (f *floor) cpuOf(b *testing.B, s floorShape) float64 {
	b.Helper()

	begun := f.cpu(b)
	for range floorRuns {
		f.run(b, s)
	}

	return (f.cpu(b) - begun) / floorRuns
}

func (f *floor) run(b *testing.B, s floorShape) {
	b.Helper()
	w, err := f.client.ExecuteWorkflow(b.Context(), client.StartWorkflowOptions{
		TaskQueue:        floorQueue,
		EnableEagerStart: true,
	}, floorFlow, s)
	require.NoError(b, err)

	for range s.Signals {
		// gives each signal its own workflow task
		time.Sleep(15 * time.Millisecond)
		require.NoError(b, f.client.SignalWorkflow(b.Context(), w.GetID(), "", "next", nil))
	}

	require.NoError(b, w.Get(b.Context(), nil))
}

// cpu returns the CPU seconds that both processes have used.
func (f *floor) cpu(b *testing.B) float64 {
	b.Helper()

	var own syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &own))

	return processCPU(b, f.server.cmd.Process.Pid) + time.Duration(own.Utime.Nano()+own.Stime.Nano()).Seconds()
}

// floorFlow runs the activities of the shape with the timeouts of a rollout, and then waits for its signals.
func floorFlow(ctx workflow.Context, s floorShape) error {
	for i := range s.Activities {
		queue := floorQueue
		if i < s.Apart {
			queue = floorApartQueue
		}

		step := workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
			TaskQueue:              queue,
			ScheduleToStartTimeout: 2 * time.Minute,
			ScheduleToCloseTimeout: 4 * time.Minute,
			HeartbeatTimeout:       20 * time.Second,
		})
		if err := workflow.ExecuteActivity(step, floorActivity).Get(ctx, nil); err != nil {
			return err
		}
	}

	for range s.Signals {
		workflow.GetSignalChannel(ctx, "next").Receive(ctx, nil)
	}

	return nil
}

func floorActivity(context.Context) error { return nil }
