package searchindex

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"strings"

	"github.com/rolloutd/rolloutd/internal/episode"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/store"
	"github.com/rolloutd/rolloutd/internal/text"
	"github.com/rolloutd/rolloutd/internal/trajectory/transcript"
	"github.com/rolloutd/rolloutd/internal/trajectory/turns"
)

// Bounds of what is found of a rollout, in bytes.
const (
	// maxText bounds the text of a rollout.
	maxText = 256 << 10
	// maxPart bounds a text of it: of a longer one half of this from its begin and half from its end.
	maxPart = 8 << 10
)

// document is what the index has of a rollout.
type document struct {
	listed rollout.Listed
	course course
	text   strings.Builder

	// the text is as long as it may be: nothing is added any more
	full bool
}

// addText adds a text.
func (d *document) addText(part string) {
	if part = strings.TrimSpace(part); part == "" || d.full {
		return
	}

	if len(part) > maxPart {
		part = text.Head(part, maxPart/2) + " … " + text.Tail(part, maxPart/2)
	}

	if d.full = d.text.Len()+len(part) > maxText; d.full {
		return
	}

	// SQLite ends some texts at a zero byte
	d.text.WriteString(strings.ReplaceAll(strings.ToValidUTF8(part, "\uFFFD"), "\x00", "\uFFFD"))
	d.text.WriteByte('\n')
}

// readHead reads a result without its large parts; fault.NotFound: the rollout has none yet.
func readHead(ctx context.Context, s *store.Store, id string) (head rollout.Result, err error) {
	err = s.JSON(ctx, store.HeadKey(id), &head)
	if fault.Is(err, fault.NotFound) {
		// a rollout of an earlier version has only the whole result
		err = s.JSON(ctx, store.ResultKey(id), &head)
	}

	return head, err
}

// read reads a rollout; fault.NotFound: it has no result yet.
func read(ctx context.Context, s *store.Store, id string) (*document, error) {
	head, err := readHead(ctx, s, id)
	if err != nil {
		return nil, err
	}

	d := &document{listed: head.Listed()}
	d.listed.ID = id
	d.course = courseOf(head, *d.listed.FinishedAt)

	d.addResult(head)

	if head.Agent == rollout.AgentInteractive {
		return d, d.addEpisode(ctx, s, store.AttemptKey(id, max(len(head.Attempts), 1), store.Steps))
	}

	for n := len(head.Attempts); n > 0; n-- {
		found, err := d.addTrace(ctx, s, store.AttemptKey(id, n, store.Trace))
		if found || err != nil {
			return d, err
		}
	}

	return d, nil
}

// addResult adds why the rollout ended so, and what the verifier wrote.
func (d *document) addResult(r rollout.Result) {
	parts := []string{r.ID, r.TaskID, r.Grading.Why, r.VerifierStdout, r.VerifierStderr}
	if r.Error != nil {
		parts = append(parts, *r.Error)
	}

	for _, command := range append(r.SetupResults, r.VerifyResults...) {
		parts = append(parts, command.Cmd, command.Stdout, command.Stderr)
	}

	for _, part := range parts {
		d.addText(part)
	}
}

// addTrace adds the conversation, if there is that trace. One that cannot be read to its end is found by what was read.
func (d *document) addTrace(ctx context.Context, s *store.Store, trace string) (found bool, err error) {
	lines, err := s.Reader(ctx, trace)
	if fault.Is(err, fault.NotFound) {
		return false, nil
	}

	if err != nil {
		return false, err
	}

	defer lines.Close()

	conversation, sequences := transcript.NewConversation(), newSequenceCounter()

	err = turns.Each(lines, turns.Bounded, func(t *rollout.Turn) error {
		d.course.addTurn(t)
		sequences.add(t)

		if !d.full {
			d.addTurn(conversation.Turn(t))
		}

		return nil
	})

	if fault.Is(err, fault.Internal) || fault.Is(err, fault.Exhausted) {
		return true, nil
	}

	d.course.Sequences = sequences.count()

	return true, err
}

// addTurn adds the texts of a turn. The system's prompt is the agent's, the same in many rollouts.
func (d *document) addTurn(t transcript.Turn) {
	if d.listed.Model == "" {
		d.listed.Model = t.Model
	}

	for _, part := range t.Parts {
		if part.Kind != transcript.System {
			d.addText(part.Name + " " + part.Text)
		}
	}
}

// maxStep bounds a line of a step log in bytes: a call and its result.
const maxStep = 64 << 20

// addEpisode adds the calls of an interactive episode, if there is that log. One that cannot be read to its end is
// found by what was read.
func (d *document) addEpisode(ctx context.Context, s *store.Store, log string) error {
	lines, err := s.Reader(ctx, log)
	if fault.Is(err, fault.NotFound) {
		return nil
	}

	if err != nil {
		return err
	}

	defer lines.Close()

	d.listed.ToolCalls = new(int)

	scanner := bufio.NewScanner(lines)
	scanner.Buffer(nil, maxStep)

	for scanner.Scan() {
		var step episode.Step
		if json.Unmarshal(scanner.Bytes(), &step) != nil {
			return nil
		}

		if step.Kind == episode.KindCall {
			d.addCall(step)
		}
	}

	if errors.Is(scanner.Err(), bufio.ErrTooLong) {
		return nil
	}

	return scanner.Err()
}

func (d *document) addCall(step episode.Step) {
	*d.listed.ToolCalls++
	d.listed.LastCallAt = &step.At

	d.addText(step.Tool + " " + string(step.Arguments))

	if step.Result != nil {
		d.addText(step.Result.Text())
	}
}
