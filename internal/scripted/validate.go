package scripted

import (
	"errors"
	"fmt"
	"strings"
)

// Validate returns all problems as one error.
func (ss Scripts) Validate() error {
	var errs []error
	if len(ss) == 0 {
		errs = append(errs, errors.New("must have at least one script"))
	}

	for i, s := range ss {
		at := fmt.Sprintf("scripts[%d]", i)
		if s.Name != "" {
			at += fmt.Sprintf(" %q", s.Name)
		}

		errs = append(errs, s.validate(at)...)
		if s.Match == "" && !s.Hermes && i < len(ss)-1 {
			errs = append(
				errs,
				fmt.Errorf("%s: matches everything, so the scripts after it are never played; put it last", at),
			)
		}
	}

	return errors.Join(errs...)
}

func (s Script) validate(at string) []error {
	var errs []error
	if len(s.Turns) == 0 {
		errs = append(errs, fmt.Errorf("%s.turns: must not be empty", at))
	}

	errs = append(errs, s.Pace.validate(at+".pace")...)
	for i, t := range s.Turns {
		errs = append(errs, t.validate(fmt.Sprintf("%s.turns[%d]", at, i))...)
	}

	return errs
}

func (p Pace) validate(at string) []error {
	if p.Delay < 0 || p.ChunkDelay < 0 || p.TokensPerSecond < 0 || p.TokensPerChunk < 0 {
		return []error{fmt.Errorf("%s: must not have negative numbers", at)}
	}

	if p.ChunkDelay > 0 && p.TokensPerSecond > 0 {
		return []error{fmt.Errorf("%s: must have chunk_delay or tokens_per_second, not both", at)}
	}

	return nil
}

func (t Turn) validate(at string) []error {
	var errs []error
	if t.Filler < 0 {
		errs = append(errs, fmt.Errorf("%s.filler: must not be negative, got %d", at, t.Filler))
	}

	for i, c := range t.ToolCalls {
		if c.Name == "" {
			errs = append(errs, fmt.Errorf("%s.tool_calls[%d].name: must not be empty", at, i))
		}

		if _, err := c.json(); err != nil {
			errs = append(errs, fmt.Errorf("%s.tool_calls[%d].arguments: %w", at, i, err))
		}
	}

	switch t.FinishReason {
	case "", "stop", "length", "tool_calls", "content_filter":
	default:
		errs = append(
			errs,
			fmt.Errorf("%s.finish_reason: must be stop, length, tool_calls or content_filter, got %q",
				at, t.FinishReason),
		)
	}

	if t.Pace != nil {
		errs = append(errs, t.Pace.validate(at+".pace")...)
	}

	for i, f := range t.Faults {
		last := i == len(t.Faults)-1
		errs = append(errs, f.validate(fmt.Sprintf("%s.faults[%d]", at, i), last)...)
	}

	return errs
}

func (f Fault) validate(at string, last bool) []error {
	var errs []error
	if f.Times == 0 && !last {
		errs = append(errs, fmt.Errorf("%s: has no times, so the faults after it are never shown: set times", at))
	}

	if f.Times < 0 || f.Delay < 0 || f.RetryAfter < 0 || negative(f.HangAfter) || negative(f.CutAfter) ||
		negative(f.ErrorAfter) {
		errs = append(errs, fmt.Errorf("%s: must not have negative numbers", at))
	}

	kinds := f.kinds()
	if len(kinds) > 1 {
		errs = append(errs, fmt.Errorf("%s: must have one kind of fault, got %s", at, strings.Join(kinds, " and ")))
	}

	if len(kinds) == 0 && f.Delay == 0 {
		errs = append(
			errs,
			fmt.Errorf(
				"%s: must have status, delay, hang, hang_after, cut_after, error_after, no_finish, not_sse or garbage",
				at,
			),
		)
	}

	if f.Status != 0 && (f.Status < 400 || f.Status > 599) {
		errs = append(errs, fmt.Errorf("%s.status: must be 400 to 599, got %d", at, f.Status))
	}

	if f.Status == 0 && (f.RetryAfter != 0 || f.Message != "" || f.EchoKey) {
		errs = append(errs, fmt.Errorf("%s: retry_after, message and echo_key need a status", at))
	}

	return errs
}

func (f Fault) kinds() []string {
	var kinds []string

	for _, k := range []struct {
		name string
		set  bool
	}{
		{"status", f.Status != 0}, {"hang", f.Hang}, {"hang_after", f.HangAfter != nil},
		{"cut_after", f.CutAfter != nil}, {"error_after", f.ErrorAfter != nil}, {"no_finish", f.NoFinish},
		{"not_sse", f.NotSSE}, {"garbage", f.Garbage},
	} {
		if k.set {
			kinds = append(kinds, k.name)
		}
	}

	return kinds
}

func negative(n *int) bool { return n != nil && *n < 0 }
