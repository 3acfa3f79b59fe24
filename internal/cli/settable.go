package cli

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

// setLine is the line of a task in the table of a set, or of all tasks.
type setLine struct {
	name string

	// rollouts by outcome, and tasks without a result
	outcomes map[string]int

	// rollouts, and those with a reward
	rollouts, graded int

	// "-": not known
	reward string

	// by k; those that are not known are absent
	passAtK map[int]float64
	usage   rollout.Usage
}

// SetTable writes the results of a set: a line for each task, and one for all. The reward and pass@k of all are the
// means over the tasks that have them.
func SetTable(w io.Writer, results []TaskResult) {
	total := setLine{name: "total", outcomes: map[string]int{}, reward: "-", passAtK: map[int]float64{}}
	lines := make([]setLine, len(results))
	tasks := map[int]float64{}

	for i, r := range results {
		lines[i] = lineOf(r)
		total.addTask(lines[i])

		for k, p := range lines[i].passAtK {
			tasks[k]++
			// the running mean
			total.passAtK[k] += (p - total.passAtK[k]) / tasks[k]
		}
	}

	if s := statisticsOf(results); s.N > 0 {
		total.reward = fmt.Sprintf("%.4g ± %.4g", s.Mean, s.Std)
	}

	writeLines(w, append(lines, total))
}

func lineOf(r TaskResult) setLine {
	s := r.statistics()
	l := setLine{
		name:     short(plain(r.Task.Name), maxName),
		outcomes: map[string]int{},
		rollouts: len(r.members()),
		graded:   s.N,
		reward:   "-",
		passAtK:  map[int]float64{},
		usage:    r.Usage,
	}

	if r.Err != nil {
		l.outcomes["no result"]++
	}

	for _, m := range r.members() {
		l.outcomes[string(m.Outcome)]++
	}

	if s.N > 0 {
		l.reward = fmt.Sprintf("%.4g", s.Mean)
	}

	for k := 1; k <= s.N; k *= 2 {
		l.passAtK[k] = rollout.PassAtK(s.N, s.Pass, k)
	}

	return l
}

// addTask adds what is summed over tasks.
func (l *setLine) addTask(task setLine) {
	l.rollouts += task.rollouts
	l.graded += task.graded
	l.usage.Add(task.usage)

	for name, n := range task.outcomes {
		l.outcomes[name] += n
	}
}

// writeLines writes lines as a table. The last one is of all tasks: it has each k.
func writeLines(w io.Writer, lines []setLine) {
	ks := slices.Sorted(maps.Keys(lines[len(lines)-1].passAtK))

	header := []any{"TASK", "GRADED", "MEAN REWARD"}
	for _, k := range ks {
		header = append(header, fmt.Sprintf("PASS@%d", k))
	}

	t := NewColumns(w, append(header, "OUTCOMES", "PROMPT TOKENS", "SAMPLED TOKENS", "COST")...)

	for _, l := range lines {
		cells := []any{l.name, fmt.Sprintf("%d of %d", l.graded, l.rollouts), l.reward}
		for _, k := range ks {
			cells = append(cells, knownNumber(l.passAtK, k))
		}

		t.Row(append(cells,
			countsOf(l.outcomes), l.usage.PromptTokens, l.usage.CompletionTokens, cost(l.usage.CostUSD))...)
	}

	t.Flush()
}

func knownNumber(numbers map[int]float64, k int) string {
	if p, known := numbers[k]; known {
		return strconv.FormatFloat(p, 'g', 4, 64)
	}

	return "-"
}

// countsOf formats counts by name, such as "completed 3, infra_failed 1".
func countsOf(counts map[string]int) string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		all = append(all, fmt.Sprintf("%s %d", name, counts[name]))
	}

	return strings.Join(all, ", ")
}

// cost formats US dollars; "-": the price of the model is not known, or there was no model call.
func cost(usd float64) string {
	if usd == 0 {
		return "-"
	}

	return fmt.Sprintf("$%.4g", usd)
}

// statisticsOf describes the mean rewards of the tasks that have one.
func statisticsOf(results []TaskResult) rollout.Statistics {
	var means []float64

	for _, r := range results {
		if s := r.statistics(); s.N > 0 {
			means = append(means, s.Mean)
		}
	}

	return rollout.StatisticsOf(means)
}

// BelowReward returns an error if the mean reward of a set is below least, or a task has no reward: then the
// mean is not known.
func BelowReward(results []TaskResult, least float64) error {
	switch s := statisticsOf(results); {
	case s.N < len(results):
		return fmt.Errorf("--min-reward: %d of %d tasks have no reward", len(results)-s.N, len(results))
	case s.Mean < least:
		return fmt.Errorf("--min-reward: the mean reward is %.4g, below %g", s.Mean, least)
	default:
		return nil
	}
}

// SetExitCode is the exit code of a set: that of its first rollout that did not complete.
func SetExitCode(results []TaskResult) int {
	for _, r := range results {
		if r.Err != nil {
			return ExitError
		}

		if code := GroupExitCode(rollout.GroupState{Members: r.members()}); code != ExitOK {
			return code
		}
	}

	return ExitOK
}
