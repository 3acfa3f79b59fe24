package taskset

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

// check repeats checks of the server, so that its errors have the line.
func (t Task) check(line map[string]int) error {
	var errs []error

	bad := func(field, format string, args ...any) {
		msg := field + ": " + fmt.Sprintf(format, args...)
		if n := line[field]; n > 0 {
			msg = fmt.Sprintf("line %d: %s", n, msg)
		}

		errs = append(errs, errors.New(msg))
	}
	if strings.TrimSpace(t.Instruction) == "" && len(t.Steps) == 0 {
		bad("instruction", "must not be empty")
	}

	for i, s := range t.Steps {
		if strings.TrimSpace(s.Instruction) == "" {
			bad("steps", "step %d (%q): instruction must not be empty", i+1, s.Name)
		}
	}

	if kind := t.OnTimeout.Kind; kind != 0 && kind != yaml.ScalarNode {
		bad("on_timeout", "must be %q or left out", rollout.TimeoutNull)
	}

	if t.AgentTimeoutS < 0 || math.IsNaN(t.AgentTimeoutS) || math.IsInf(t.AgentTimeoutS, 0) {
		bad("agent_timeout_s", "must be 0 or more seconds, got %g", t.AgentTimeoutS)
	}

	for _, list := range []struct {
		field    string
		commands []string
	}{{"setup", t.Setup}, {"solution", t.Solution}, {"verify", t.Verify}} {
		for i, c := range list.commands {
			if strings.TrimSpace(c) == "" {
				bad(list.field, "command %d is empty", i+1)
			}
		}
	}

	return errors.Join(errs...)
}
