package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/rolloutd/rolloutd/internal/cli/client"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/taskset"
	"github.com/rolloutd/rolloutd/internal/text"
)

// TaskResult is how the rollout of one task of a set ended, or its group of rollouts.
type TaskResult struct {
	Task taskset.Task

	// the result of the only rollout
	Result rollout.Result

	// the group; nil: there is one rollout
	Group *client.Group

	// usage of the model calls of all its rollouts
	Usage rollout.Usage

	// there is no result
	Err error
}

// RunTasks runs one rollout of each task, at most concurrency at once, and calls each at the end of each
// rollout. It returns the results in the order of the tasks. args makes the arguments of a task; with a group_size
// it is a group in place of a rollout. If ctx ends, RunTasks returns its error; rollouts that have started continue.
func RunTasks(
	ctx context.Context,
	c *client.Client,
	tasks []taskset.Task,
	concurrency int,
	args func(taskset.Task) (map[string]any, error),
	each func(TaskResult),
) ([]TaskResult, error) {
	results := make([]TaskResult, len(tasks))
	// mu makes each run in one goroutine at a time.
	var (
		mu sync.Mutex
		g  errgroup.Group
	)
	g.SetLimit(concurrency)

	for i, t := range tasks {
		g.Go(func() error {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}

			r := TaskResult{Task: t}

			var a map[string]any
			if a, r.Err = args(t); r.Err == nil {
				r.Err = c.UploadAll(ctx, t.Local)
			}

			if r.Err == nil {
				r.run(ctx, c, a)
			}

			if ctx.Err() != nil {
				return context.Cause(ctx)
			}

			mu.Lock()
			defer mu.Unlock()

			results[i] = r
			each(r)

			return nil
		})
	}

	return results, g.Wait()
}

// run runs the rollout or the group with these arguments to its end.
func (r *TaskResult) run(ctx context.Context, c *client.Client, args map[string]any) {
	if args["group_size"] == nil {
		r.Result, _, r.Err = Run(ctx, c, args, io.Discard)
		r.Usage = r.Result.Usage

		return
	}

	g, err := RunGroup(ctx, c, args, io.Discard)
	if err != nil {
		r.Err = err
		return
	}

	r.Group = &g

	for _, m := range g.Members {
		for _, id := range append(m.Lost, m.RolloutID) {
			// A rollout that was aborted before it began has no result, and has called no model.
			if head, err := c.Head(ctx, id); err == nil {
				r.Usage.Add(head.Usage)
			}
		}
	}
}

// members are the task's rollouts, also where there is one only.
func (r *TaskResult) members() []rollout.Member {
	switch {
	case r.Err != nil:
		return nil
	case r.Group != nil:
		return r.Group.Members
	default:
		return []rollout.Member{{RolloutID: r.Result.ID, Outcome: r.Result.Outcome, Reward: r.Result.Reward}}
	}
}

// statistics describes the rewards of the task's rollouts.
func (r *TaskResult) statistics() rollout.Statistics {
	return rollout.StatisticsOf(rollout.GroupState{Members: r.members()}.Rewards())
}

// TaskLine writes one line about a task of a set.
func TaskLine(w io.Writer, r TaskResult) {
	switch {
	case r.Err != nil:
		fmt.Fprintf(w, "  %-28s error: %s\n", plain(r.Task.Name), block(r.Err.Error(), "    "))
	case r.Group != nil:
		fmt.Fprintf(w, "  %-28s %s, rewards %s, group %s\n",
			plain(r.Task.Name), r.Group.Outcome, rewards(r.members()), r.Group.ID)
	default:
		fmt.Fprintf(w, "  %-28s %s, reward %s, rollout %s\n",
			plain(r.Task.Name), r.Result.Outcome, rewardOf(r.Result.Reward), r.Result.ID)
	}
}

// WriteJSON writes the result of the rollout or the group, or the error in its place, as a line of JSON.
func (r *TaskResult) WriteJSON(w io.Writer) error {
	switch {
	case r.Err != nil:
		return json.NewEncoder(w).Encode(map[string]any{"task": r.Task.Name, "error": NewJSONError(r.Err)})
	case r.Group != nil:
		return json.NewEncoder(w).Encode(r.Group)
	default:
		return json.NewEncoder(w).Encode(r.Result)
	}
}

// OracleProblem says why the rollout of the agent oracle does not prove that the task can be solved; "" if it does. The status
// of a solution that earns the full reward does not matter, as in Harbor.
func (r TaskResult) OracleProblem() string {
	switch _, most := r.rewardRange(); {
	case r.Err != nil:
		return "oracle: " + r.Err.Error()
	case r.Result.Outcome == rollout.AgentFailed && r.Result.Reward != nil && *r.Result.Reward >= most:
		return ""
	case r.Result.Outcome != rollout.Completed:
		return fmt.Sprintf("oracle: %s: %s", r.Result.Outcome, plain(textOf(r.Result.Error)))
	case r.Result.Reward == nil:
		return "oracle: the task has no verifier: it must have verify or test_script"
	case *r.Result.Reward < most:
		return fmt.Sprintf("oracle: the solution earns %g of %g (rollout %s)%s",
			*r.Result.Reward, most, r.Result.ID, r.verifierSays()+r.unseen()+r.notes())
	}

	return ""
}

// OnlyWith begins the problem of a solution that earns the full reward with one way of grading alone.
func OnlyWith(grade string) string {
	return fmt.Sprintf("the oracle passes only with verifier.grade: %[1]s (in the task, or as an argument: "+
		"run, tasks check and produce --grade %[1]s, rollout of a producer)\n        ", grade)
}

// NeedsMore reports whether the verifier gave less than the full reward.
func (r TaskResult) NeedsMore() bool {
	_, most := r.rewardRange()

	return r.Err == nil &&
		(r.Result.Outcome == rollout.VerifierFailed || r.Result.Reward != nil && *r.Result.Reward < most)
}

// maxSaid bounds what a problem quotes of a verifier, in bytes.
const maxSaid = 600

// verifierSays is why the verifier was not content, on lines of its own: the first verify command that
// failed and the end of what it wrote, or the end of what the test script wrote; "": it wrote nothing.
func (r TaskResult) verifierSays() string {
	what, output := "the test script", cmp.Or(r.Result.VerifierStderr, r.Result.VerifierStdout)

	for _, c := range r.Result.VerifyResults {
		if c.ExitCode != 0 {
			what = fmt.Sprintf("%s (exit code %d)", text.HeadUTF8(c.Cmd, 120), c.ExitCode)
			output = cmp.Or(c.Stderr, c.Stdout)

			break
		}
	}

	output = strings.TrimSpace(text.Tail(strings.TrimSpace(output), maxSaid))
	if output == "" {
		return ""
	}

	const indent = "        "

	return "\n" + indent + plain(what) + ":\n" + indent + block(output, indent)
}

// unseen names what the solution changed and the verifier did not see, on a line of its own; "": nothing.
func (r TaskResult) unseen() string {
	const (
		shown  = 8
		indent = "        "
	)

	paths := r.Result.Grading.Unseen
	if len(paths) == 0 {
		return ""
	}

	more := ""
	if len(paths) > shown {
		paths, more = paths[:shown], fmt.Sprintf(" and %d more", len(paths)-shown)
	}

	return "\n" + indent + "the verifier did not see changes in " + plain(strings.Join(paths, ", ")) + more
}

// notes are those of the grading, each on a line of its own; "": there are none.
func (r TaskResult) notes() string {
	var all strings.Builder
	for _, note := range r.Result.Grading.Notes {
		all.WriteString("\n        " + plain(note))
	}

	return all.String()
}

// NopProblem says why the rollout of the agent nop does not prove that the task needs work; "" if it does.
func (r TaskResult) NopProblem() string {
	switch _, most := r.rewardRange(); {
	case r.Err != nil:
		return "nop: " + r.Err.Error()
	case r.Result.Outcome != rollout.Completed:
		return fmt.Sprintf("nop: %s: %s", r.Result.Outcome, plain(textOf(r.Result.Error)))
	case r.Result.Reward != nil && *r.Result.Reward >= most:
		return fmt.Sprintf("nop: doing nothing earns %g of %g (rollout %s)", *r.Result.Reward, most, r.Result.ID)
	}

	return ""
}

// FlakyProblem says how the reward of an agent differs in a second rollout of the task; "": it is the same.
func (r TaskResult) FlakyProblem(agent string, second TaskResult) string {
	if second.Err != nil {
		return fmt.Sprintf("%s: the second time: %v", agent, second.Err)
	}

	first, then := r.Result.Reward, second.Result.Reward
	if first == nil && then == nil || first != nil && then != nil && *first == *then {
		return ""
	}

	worse := second
	if first == nil || then != nil && *first < *then {
		worse = r
	}

	return fmt.Sprintf("flaky: %s earns %s (rollout %s), then %s (rollout %s)%s",
		agent, rewardOf(first), r.Result.ID, rewardOf(then), second.Result.ID, worse.verifierSays())
}

// rewardRange is the smallest and the largest reward of the task; of steps it is made as their reward is.
func (r TaskResult) rewardRange() (least, most float64) {
	steps := r.Task.Steps
	if len(steps) == 0 {
		return rollout.Verifier{RewardRange: r.Task.RewardRange}.Expected()
	}

	if r.Task.RewardStrategy == string(rollout.RewardFinal) {
		steps = steps[len(steps)-1:]
	}

	for _, s := range steps {
		low, high := rollout.Verifier{RewardRange: s.RewardRange}.Expected()
		least += low / float64(len(steps))
		most += high / float64(len(steps))
	}

	return least, most
}

func textOf(s *string) string {
	if s == nil {
		return ""
	}

	return *s
}
